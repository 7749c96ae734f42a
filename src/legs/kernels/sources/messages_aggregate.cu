// out_i = post_i (sum_e weight_e pre_col(e) h_col(e) + own pre_i h_i), see messages.cuh.
//
// Further constants: PIECES of a row that are summed; WEIGHTED, PRE, POST: whether there are edge
// weights and scales of nodes; OWN: nothing (0), once (1) or a number a model (2); SIDE: rows of h
// have a second half that is added to out as it is (1), rows of out have a second half that takes h
// as it is (2), neither (0). Rows of h lie `stride` pieces apart, rows of out `apart`.

#define CUTS ((PIECES + LANES - 1) / LANES)

struct Neighbours {
    static const int SIZE = WIDTH;
    real sums[SIZE];
    const int* col;
    const real *weight, *pre, *post;
    const Piece* h;
    Piece* out;
    real own;
    int i, piece, stride, apart;

    __device__ const Piece& at(int j) const { return h[(long long)j * stride + piece]; }

    __device__ void start(int row) {
        i = row;
        for (int w = 0; w < WIDTH; ++w) sums[w] = 0;
    }

    __device__ void add(const Piece& seen, real share) {
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) sums[w] += share * seen.part[w];
    }

    __device__ void walk(int from, int to, int step, bool mine) {
        if (piece >= PIECES) return;
        if (OWN && mine) add(at(i), PRE ? own * pre[i] : own);
        for (int e = from; e < to; e += AT_ONCE * step) {
            // Several neighbours are under way at a time; most rows have no more than these.
            Piece seen[AT_ONCE];
            real share[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
                const int place = e + k * step;
                share[k] = 0;
                if (place < to) {
                    const int j = col[place];
                    seen[k] = at(j);
                    share[k] = (WEIGHTED ? weight[place] : real(1)) * (PRE ? pre[j] : real(1));
                }
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to) add(seen[k], share[k]);
        }
    }

    __device__ void merge(const real* theirs) {
        for (int w = 0; w < WIDTH; ++w) sums[w] += theirs[w];
    }

    __device__ void finish() {
        if (piece >= PIECES) return;
        const real scale = POST ? post[i] : real(1);
        Piece result;
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) result.part[w] = scale * sums[w];
        if (SIDE == 1) {
            const Piece there = h[(long long)i * stride + PIECES + piece];
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) result.part[w] += there.part[w];
        }
        out[(long long)i * apart + piece] = result;
        if (SIDE == 2) out[(long long)i * apart + PIECES + piece] = at(i);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
aggregate(const int* __restrict__ rowptr, const int* __restrict__ col,
          const real* __restrict__ weight, const real* __restrict__ pre,
          const real* __restrict__ post, const real* __restrict__ own, const Piece* __restrict__ h,
          Piece* __restrict__ out, int rows, int stride, int apart, int blocks) {
    const int model = blockIdx.x / blocks / CUTS, cut = blockIdx.x / blocks % CUTS;
    Neighbours work;
    work.col = col, work.weight = weight, work.pre = pre, work.post = post;
    work.h = h + (long long)model * rows * stride, work.stride = stride;
    work.out = out + (long long)model * rows * apart, work.apart = apart;
    work.own = OWN == 2 ? own[model] : real(1);
    work.piece = cut * LANES + threadIdx.x % LANES;
    each_row(rowptr, blockIdx.x % blocks * GROUPS, rows, work);
}
