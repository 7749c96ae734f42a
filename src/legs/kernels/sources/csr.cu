// One step of a walk on a large graph: out_i = keep x_i + move sum_e value_e x_col(e), in one pass.
//
// Compiled at run time with constants: real (float or double), column_t (of the column indices),
// WIDTH numbers that a thread reads at once (1, 2 or 4). Threads of a row lie side by side, so that
// a neighbour's channels are read in one piece; several neighbours are under way at a time.

struct alignas(sizeof(real) * WIDTH) Piece {
    real part[WIDTH];
};

#define AT_ONCE 4

extern "C" __global__ void __launch_bounds__(256)
step(const long long* __restrict__ rowptr, const column_t* __restrict__ col,
     const real* __restrict__ value, const Piece* __restrict__ x, Piece* __restrict__ out,
     int rows, int pieces, double keep, double move) {
    const long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long i = place / pieces;
    const int lane = int(place % pieces);
    if (i >= rows) return;
    const long long to = rowptr[i + 1];
    real sum[WIDTH] = {};
    long long e = rowptr[i];
    for (; e + AT_ONCE <= to; e += AT_ONCE) {
        Piece seen[AT_ONCE];
        real share[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            seen[k] = x[(long long)col[e + k] * pieces + lane];
            share[k] = value[e + k];
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) sum[w] += share[k] * seen[k].part[w];
    }
    for (; e < to; ++e) {
        const Piece seen = x[(long long)col[e] * pieces + lane];
        const real share = value[e];
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) sum[w] += share * seen.part[w];
    }
    Piece result;
    if (keep != 0) {
        const Piece here = x[i * pieces + lane];
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) result.part[w] = real(keep) * here.part[w] + real(move) * sum[w];
    } else {
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) result.part[w] = real(move) * sum[w];
    }
    out[i * pieces + lane] = result;
}
