// Degrees, places of neighbours in their graph, the share of a node in means and the floor of the variance: one
// block a graph, once for all models.
typedef long long index_t;

extern "C" __global__ void prepare(const real* x, const index_t* rowptr, const index_t* col,
                                   const real* weight, const index_t* ptr, const real* copies,
                                   real* inverse, real* floors, real* shares, unsigned short* near) {
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
    // Sums over all nodes, for the first thread.
    const auto summed = [&](real value) {
        for (int k = 16; k; k >>= 1) value += __shfl_xor_sync(~0u, value, k);
        __syncthreads();
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
        __syncthreads();
        real all = 0;
        for (int k = 0; k < (blockDim.x + 31) / 32; ++k) all += sums[k];
        return all;
    };
    real nodes = real(end - begin);
    if (COPIES) {
        real own = 0;
        for (index_t i = begin + threadIdx.x; i < end; i += blockDim.x) own += copies[i];
        nodes = summed(own);
    }
    const real share = 1 / (nodes > 1 ? nodes : real(1));
    if (threadIdx.x == 0) shares[g] = share;
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
            energy += (COPIES ? copies[i] : real(1)) * (square + (total > 0 ? reach * spread : square));
        }
        const real all = summed(energy);
        if (threadIdx.x == 0) floors[g * C + c] = real(1e-6) * all * share + real(1e-30);
    }
}
