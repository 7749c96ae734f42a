// Forward: out, and the largest score and the sum of the softmax of every node and head.
struct Forward : Attention {
    static const int SIZE = WIDTH + 2;
    real sums[SIZE];  // largest score, sum of exp(score - largest), and that sum of states
    Piece* out;
    real* stats;  // [rows, 2, HEADS]
    real here;

    __device__ void start(int row) {
        i = row, here = receiver(row);
        for (int s = 1; s < SIZE; ++s) sums[s] = 0;
        sums[0] = LOWEST;
    }
    __device__ void raise(real largest) {
        const real shrink = exp(sums[0] - largest);
        sums[0] = largest;
#pragma unroll
        for (int s = 1; s < SIZE; ++s) sums[s] *= shrink;
    }
    __device__ void add(const Piece& seen, real score, real times) {
        const real share = times * exp(score - sums[0]);
        sums[1] += share;
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) sums[2 + w] += share * seen.part[w];
    }
    __device__ void walk(int from, int to, int step, bool mine) {
        if (mine) {
            sums[0] = leaky(sender(i) + here);
            add(state(i), sums[0], 1);
        }
        for (int e = from; e < to; e += AT_ONCE * step) {
            Piece seen[AT_ONCE];
            real score[AT_ONCE], times[AT_ONCE], largest = sums[0];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to) {
                    const int j = col[e + k * step];
                    seen[k] = state(j), times[k] = counted(e + k * step);
                    score[k] = leaky(sender(j) + here);
                }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to && score[k] > largest) largest = score[k];
            raise(largest);
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                if (e + k * step < to) add(seen[k], score[k], times[k]);
        }
    }
    __device__ void merge(const real* theirs) {
        if (theirs[0] > sums[0]) raise(theirs[0]);
        const real share = exp(theirs[0] - sums[0]);
#pragma unroll
        for (int s = 1; s < SIZE; ++s) sums[s] += share * theirs[s];
    }
    __device__ void finish() {
        Piece result;
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) result.part[w] = sums[2 + w] / sums[1];
        out[(long long)i * LANES + lane] = result;
        if (lane % HEAD_LANES) return;
        stats[((long long)i * 2) * HEADS + head] = sums[0];
        stats[((long long)i * 2 + 1) * HEADS + head] = sums[1];
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
attend(const int* __restrict__ rowptr, const int* __restrict__ col,
       const real* __restrict__ weight, const real* __restrict__ u, Piece* __restrict__ out,
       real* __restrict__ stats, int rows, int blocks, double slope) {
    const int model = blockIdx.x / blocks;
    Forward work;
    work.set(col, weight, u, model, rows, slope);
    work.out = out + (long long)model * rows * LANES;
    work.stats = stats + (long long)model * rows * 2 * HEADS;
    each_row(rowptr, blockIdx.x % blocks * GROUPS, rows, work);
}
