// Gradients: first what a node is as a receiver, then as a sender; see messages_attend.cuh.

// How many nodes a node stands for; those that fill a batch up may stand for none.
__device__ real copies_of(const real* copies, int i) {
    return COPIES && copies[i] > 1 ? copies[i] : real(1);
}

// D_i and d receiver_i; beside D_i what the senders need of i, in one place: `seen` is
// [rows, 4, HEADS]: score as a receiver, largest score, sum, D. With copies, the sum times these:
// what is divided by it is sent for one node then.
struct Receivers : Attention {
    static const int SIZE = 3;
    real sums[SIZE];  // a g.h, a leaky' g.h (both of this lane's channels), a leaky'
    const Piece* grad;
    const real *stats, *copies;
    real *du, *seen;
    Piece mine_grad;
    real here, largest, all;

    __device__ void start(int row) {
        i = row, here = receiver(row), mine_grad = grad[(long long)row * LANES + lane];
        largest = stats[((long long)i * 2) * HEADS + head];
        all = stats[((long long)i * 2 + 1) * HEADS + head];
        sums[0] = sums[1] = sums[2] = 0;
    }
    __device__ void add(const Piece& state, real sent, real times) {
        const real e = sent + here, share = times * (exp(leaky(e) - largest) / all);
        const real change = share * dot(mine_grad, state);
        sums[0] += change;
        sums[1] += slant(e) * change;
        sums[2] += slant(e) * share;
    }
    __device__ void walk(int from, int to, int step, bool mine) {
        if (mine) add(state(i), sender(i), 1);
        for (int e = from; e < to; e += AT_ONCE * step) {
            Piece met[AT_ONCE];
            real sent[AT_ONCE], times[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to) {
                    const int j = col[e + k * step];
                    met[k] = state(j), sent[k] = sender(j), times[k] = counted(e + k * step);
                }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to) add(met[k], sent[k], times[k]);
        }
    }
    __device__ void merge(const real* theirs) {
        for (int s = 0; s < SIZE; ++s) sums[s] += theirs[s];
    }
    __device__ void finish() {
        const real inner = total_over(HEAD_LANES, sums[0]), change = total_over(HEAD_LANES, sums[1]);
        if (lane % HEAD_LANES) return;
        du[(long long)i * STRIDE + FEATURES + HEADS + head] = change - inner * sums[2];
        real* place = seen + (long long)i * 4 * HEADS + head;
        place[0] = here, place[HEADS] = largest, place[3 * HEADS] = inner;
        place[2 * HEADS] = all * copies_of(copies, i);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
attend_receivers(const int* __restrict__ rowptr, const int* __restrict__ col,
                 const real* __restrict__ weight, const real* __restrict__ copies,
                 const real* __restrict__ u, const Piece* __restrict__ grad,
                 const real* __restrict__ stats, real* __restrict__ du, real* __restrict__ seen,
                 int rows, int blocks, double slope) {
    const int model = blockIdx.x / blocks;
    Receivers work;
    work.set(col, weight, u, model, rows, slope);
    work.copies = copies;
    work.grad = grad + (long long)model * rows * LANES;
    work.stats = stats + (long long)model * rows * 2 * HEADS;
    work.du = du + (long long)model * rows * STRIDE;
    work.seen = seen + (long long)model * rows * 4 * HEADS;
    each_row(rowptr, blockIdx.x % blocks * GROUPS, rows, work);
}
struct Senders : Attention {
    static const int SIZE = WIDTH + 2;
    real sums[SIZE];  // a leaky' g.h (of this lane's channels), a leaky' D, and a g
    const Piece* grad;
    const real *seen, *copies;
    real* du;
    Piece mine_state;
    real here;

    __device__ void start(int row) {
        i = row, here = sender(row), mine_state = state(row);
        for (int s = 0; s < SIZE; ++s) sums[s] = 0;
    }
    __device__ void add(const Piece& given, const real* known, real times) {
        const real e = here + known[0], share = times * (exp(leaky(e) - known[1]) / known[2]);
        sums[0] += share * slant(e) * dot(given, mine_state);
        sums[1] += share * slant(e) * known[3];
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) sums[2 + w] += share * given.part[w];
    }
    __device__ void read(int j, Piece& given, real* known) const {
        given = grad[(long long)j * LANES + lane];
#pragma unroll
        for (int k = 0; k < 4; ++k) known[k] = seen[((long long)j * 4 + k) * HEADS + head];
    }
    __device__ void walk(int from, int to, int step, bool mine) {
        Piece given[AT_ONCE];
        real known[AT_ONCE][4], times[AT_ONCE];
        if (mine) {
            read(i, given[0], known[0]);
            add(given[0], known[0], 1);
        }
        for (int e = from; e < to; e += AT_ONCE * step) {
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to) {
                    read(col[e + k * step], given[k], known[k]);
                    times[k] = counted(e + k * step);
                }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to) add(given[k], known[k], times[k]);
        }
    }
    __device__ void merge(const real* theirs) {
        for (int s = 0; s < SIZE; ++s) sums[s] += theirs[s];
    }
    __device__ void finish() {
        const real change = total_over(HEAD_LANES, sums[0]), all = copies_of(copies, i);
        Piece result;
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) result.part[w] = all * sums[2 + w];
        *(Piece*)(du + (long long)i * STRIDE + lane * WIDTH) = result;
        if (lane % HEAD_LANES) return;
        du[(long long)i * STRIDE + FEATURES + head] = all * (change - sums[1]);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
attend_senders(const int* __restrict__ rowptr, const int* __restrict__ col,
               const real* __restrict__ weight, const real* __restrict__ copies,
               const real* __restrict__ u, const Piece* __restrict__ grad,
               const real* __restrict__ seen, real* __restrict__ du, int rows, int blocks,
               double slope) {
    const int model = blockIdx.x / blocks;
    Senders work;
    work.set(col, weight, u, model, rows, slope);
    work.copies = copies;
    work.grad = grad + (long long)model * rows * LANES;
    work.seen = seen + (long long)model * rows * 4 * HEADS;
    work.du = du + (long long)model * rows * STRIDE;
    each_row(rowptr, blockIdx.x % blocks * GROUPS, rows, work);
}
