// Sparse times dense for a stack of models: out[m, i] = sum over entries e of row i of
// value_e x[m, col_e].
//
// Constants: real; WIDTH numbers that a thread reads at once (1, 2 or 4); HEADS: 0 if all models and
// channels share the values, [entries], else the heads of values [models, entries, HEADS].
// The threads of a row are neighbors, so that a row of x is read in one piece.

struct alignas(sizeof(real) * WIDTH) Piece {
    real part[WIDTH];
};

extern "C" __global__ void __launch_bounds__(THREADS)
spmm(const index_t* __restrict__ rowptr, const index_t* __restrict__ col,
     const index_t* __restrict__ order, const real* __restrict__ value,
     const Piece* __restrict__ x, Piece* __restrict__ out, int models, int rows, int columns,
     int entries, int pieces) {
    const index_t place = (index_t)blockIdx.x * THREADS + threadIdx.x;
    const int lane = int(place % pieces), i = int(place / pieces % rows);
    const index_t model = place / pieces / rows;
    if (model >= models) return;
    x += model * columns * pieces;
    if (HEADS) value += model * entries * HEADS + lane / (pieces / (HEADS ? HEADS : 1));
    real sum[WIDTH] = {};
    const index_t end = rowptr[i + 1];
#pragma unroll 4
    for (index_t e = rowptr[i]; e < end; ++e) {
        const Piece seen = x[col[e] * pieces + lane];
        const real factor = value[(order ? order[e] : e) * (HEADS ? HEADS : 1)];
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) sum[w] += factor * seen.part[w];
    }
    Piece result;
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) result.part[w] = sum[w];
    out[place] = result;
}
