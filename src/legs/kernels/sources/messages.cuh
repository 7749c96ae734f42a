// What the kernels of message passing share: a group of threads a row, long rows by whole blocks.
//
// Compiled at run time with constants: real (float or double), WIDTH numbers that a thread reads at
// once, LANES threads of a row (a power of two, 32 at most), THREADS of a block, LONG neighbours
// from which a row is the work of all groups of its block. States are [models, rows, channels].

#define GROUPS (THREADS / LANES)
#define AT_ONCE 4

struct alignas(sizeof(real) * WIDTH) Piece {
    real part[WIDTH];
};

// Sum over the lanes of a group that `lanes` divides; all of them get it.
__device__ real total_over(int lanes, real value) {
    const unsigned all = LANES == 32 ? ~0u : (1u << (LANES % 32)) - 1;
    const unsigned group = all << (threadIdx.x % 32 / LANES * LANES);
    for (int k = lanes / 2; k; k /= 2) value += __shfl_xor_sync(group, value, k);
    return value;
}

// Every group sums over the neighbours of one row, from row `first` on. `Work` has SIZE `sums`, and
// starts a row, walks over some of its neighbours (and over the row itself, if that is its own),
// merges the sums of another walk into its own, and finishes. All in a fixed order: the same bits
// every time.
template <class Work>
__device__ void each_row(const int* rowptr, int first, int count, Work& work) {
    const int group = threadIdx.x / LANES, i = first + group;
    const int from = i < count ? rowptr[i] : 0, to = i < count ? rowptr[i + 1] : 0;
    if (i < count && to - from <= LONG) {
        work.start(i);
        work.walk(from, to, 1, true);
        work.finish();
    }
    if (!__syncthreads_or(to - from > LONG)) return;
    __shared__ real parts[THREADS * Work::SIZE];
    for (int k = first; k < first + GROUPS && k < count; ++k) {
        const int begin = rowptr[k], end = rowptr[k + 1];
        if (end - begin <= LONG) continue;
        work.start(k);
        work.walk(begin + group, end, GROUPS, group == 0);
#pragma unroll
        for (int s = 0; s < Work::SIZE; ++s) parts[s * THREADS + threadIdx.x] = work.sums[s];
        __syncthreads();
        if (group == 0) {
            for (int other = 1; other < GROUPS; ++other) {
                real theirs[Work::SIZE];
#pragma unroll
                for (int s = 0; s < Work::SIZE; ++s)
                    theirs[s] = parts[s * THREADS + other * LANES + threadIdx.x];
                work.merge(theirs);
            }
            work.finish();
        }
        __syncthreads();
    }
}
