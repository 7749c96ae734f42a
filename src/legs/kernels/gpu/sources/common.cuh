// In front of every kernel.
typedef long long index_t;

// Sum over the lanes of a warp whose numbers differ in the bits from "from" to below "to", which are
// powers of two.
__device__ inline real sum_over(real value, int from, int to) {
    for (int k = to >> 1; k >= from; k >>= 1) value += __shfl_xor_sync(~0u, value, k);
    return value;
}
