// In front of every kernel.
typedef long long index_t;
#define WARPS (THREADS / 32)

// Sum over the lanes of a warp whose numbers differ in the bits from "from" to below "to", which are
// powers of two.
__device__ inline real sum_over(real value, int from, int to) {
    for (int k = to >> 1; k >= from; k >>= 1) value += __shfl_xor_sync(~0u, value, k);
    return value;
}

// Sum over the warps of a block, lane by lane and in a fixed order; all threads must call it.
__device__ inline real sum_over_warps(real value) {
    __shared__ real shared[THREADS];
    __syncthreads();
    shared[threadIdx.x] = value;
    __syncthreads();
    value = 0;
    for (int k = threadIdx.x % 32; k < THREADS; k += 32) value += shared[k];
    return value;
}
