// Degrees, places of neighbours in their graph, and the floor of the variance: one block a graph, once for all models.
typedef long long index_t;

extern "C" __global__ void prepare(const real* x, const index_t* rowptr, const index_t* col,
                                   const real* weight, const index_t* ptr, real* inverse, real* floors,
                                   unsigned short* near) {
    const int g = blockIdx.x;
    const index_t begin = ptr[g], end = ptr[g + 1];
    for (index_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        real degree = 0;
        for (index_t e = rowptr[i]; e < rowptr[i + 1]; ++e) {
            degree += WEIGHTED ? weight[e] : real(1);
            near[e] = (unsigned short)(col[e] - begin);  // of no use in graphs of more nodes than that
        }
        // A node without neighbours is its own: its degree counts as one.
        inverse[i] = degree > 0 ? 1 / degree : real(1);
    }
    __syncthreads();
    __shared__ real sums[32];
    for (int c = 0; c < C; ++c) {
        real energy = 0;
        for (index_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
            real reach = 0, spread = 0, total = 0;
            for (index_t e = rowptr[i]; e < rowptr[i + 1]; ++e) {
                const index_t j = col[e];
                const real w = WEIGHTED ? weight[e] : real(1);
                const real a = w * inverse[j];
                total += w;
                reach += a;
                spread += a * x[j * C + c] * x[j * C + c];
            }
            const real square = x[i * C + c] * x[i * C + c];
            energy += square + (total > 0 ? reach * spread : square);
        }
        for (int k = 16; k; k >>= 1) energy += __shfl_xor_sync(~0u, energy, k);
        __syncthreads();
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = energy;
        __syncthreads();
        if (threadIdx.x == 0) {
            real all = 0;
            for (int k = 0; k < (blockDim.x + 31) / 32; ++k) all += sums[k];
            const real nodes = end > begin ? real(end - begin) : real(1);
            floors[g * C + c] = real(1e-6) * all / nodes + real(1e-30);
        }
    }
}
