// The sum of f over all nodes, for all threads.
template <class F>
__device__ real total(index_t begin, index_t end, F f) {
    real value = 0;
    for (index_t i = begin + threadIdx.x; i < end; i += THREADS) value += f(i);
    return sum_over_warps(sum_over(value, 1, 32));
}

// Degrees, places of neighbors in their graph, the share of a node in means and the floor of the
// variance: one block per graph, for all models.
extern "C" __global__ void prepare(const real* x, const index_t* rowptr, const index_t* col,
                                   const real* weight, const index_t* ptr, const real* multiplicity,
                                   unsigned short* near, real* inverse, real* floors, real* shares) {
    const int g = blockIdx.x;
    const index_t begin = ptr[g], end = ptr[g + 1];
    for (index_t i = begin + threadIdx.x; i < end; i += THREADS) {
        real degree = 0;
        for (index_t e = rowptr[i]; e < rowptr[i + 1]; ++e) {
            degree += WEIGHTED ? weight[e] : real(1);
            near[e] = (unsigned short)(col[e] - begin);  // unused in graphs of more than 65,536 nodes
        }
        // A node without neighbors is its own: its degree counts as one.
        inverse[i] = degree > 0 ? 1 / degree : real(1);
    }
    __syncthreads();
    const auto times = [&](index_t i) { return MERGED ? multiplicity[i] : real(1); };
    const real nodes = total(begin, end, times), share = 1 / (nodes > 1 ? nodes : real(1));
    if (threadIdx.x == 0) shares[g] = share;
    for (int c = 0; c < C; ++c) {
        const real energy = total(begin, end, [&](index_t i) {
            real inflow = 0, spread = 0, degree = 0;
            for (index_t e = rowptr[i]; e < rowptr[i + 1]; ++e) {
                const real w = WEIGHTED ? weight[e] : real(1), z = x[col[e] * C + c];
                const real there = inverse[col[e]], here = inverse[i];
                const real a = w * (OPERATOR == 0 ? there : OPERATOR == 1 ? here : sqrt(here * there));
                degree += w;
                inflow += a;
                spread += a * z * z;
            }
            const real square = x[i * C + c] * x[i * C + c];
            return times(i) * (square + (degree > 0 ? inflow * spread : square));
        });
        if (threadIdx.x == 0) floors[g * C + c] = real(RELATIVE_FLOOR) * energy * share + real(ABSOLUTE_FLOOR);
    }
}
