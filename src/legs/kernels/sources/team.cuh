// Scattering moments of many graphs and models, forward and backward, for graphs of at most
// CAPACITY nodes, with hubs or without. A team of threads takes a graph, for some models one after
// another, and of its lanes a group at a time. A lane is what a node diffuses in the second order: a
// parent wavelet and a channel. A thread owns up to HELD nodes; what it knows of them lies in its
// registers, and only the states of a diffusion go through shared memory. See
// legs/kernels/fused.py for what is computed.
//
// Compiled at run time with the sizes as constants:
//   real      float or double
//   C, J, M   channels, scales, diffusion steps
//   ALL       1 if any path of two wavelets counts, 0 if only increasing ones
//   WEIGHTED  1 if edges have weights
//   COPIES    1 if nodes stand for several
//   POWERS    1 if the walk powers of the signals are given
//   TEAM      threads of a team, which is a block; two warps at least
//   HELD      nodes of a thread
//   W         lanes of a group: divides all lanes, and the channels or a multiple of them

#define WARPS (TEAM / 32)
#define CAPACITY (TEAM * HELD)
#define LANES ((ALL ? J : J - 1) * C)
#define SAME (W < C ? W : C)          // channels of a group; lanes so far apart have the same one
#define LOW (ALL ? 0 : 1)             // increasing paths never end in the first wavelet
#define CHILD(j) (ALL ? 0 : (j) + 1)  // first wavelet that may follow j
#define K (J - LOW)                   // wavelets that may follow
#define PATHS (1 + J + (ALL ? J * J : J * (J - 1) / 2))
#define ROW up_to(J, 4)  // of the bank: the filters of a step and channel
#define NEAR 8           // neighbours of a node whose places a thread remembers
#define LONG 32          // neighbours of a node that a whole warp goes through together

typedef long long index_t;

__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }
__device__ constexpr int up_to(int a, int unit) { return (a + unit - 1) / unit * unit; }

template <int N>
struct alignas(sizeof(real) * N) Vec {
    real v[N];
};

// What a team has in shared memory. As the host counts it, to know how much to give.
#define SUMS (up_to(W * K, 16) + up_to(3 * W * K, 16))
#define BANK (M * SAME * ROW)
#define FACTS (8 * W * (K + 1))  // of columns, for the way back
#define GRAD (C * J * M)
struct Memory {
    real *bank, *states, *sums, *parts, *facts, *grad;
};
__device__ inline Memory lay_out(bool back) {
    extern __shared__ char raw[];
    const int states = up_to(2 * (CAPACITY + 1) * W, 4);
    const int partial = larger(WARPS * SUMS, back ? TEAM : 0);
    Memory memory;
    memory.bank = (real*)raw;
    memory.states = memory.bank + BANK;
    memory.sums = memory.states + states;
    memory.parts = memory.sums + SUMS;
    memory.facts = memory.parts + partial;
    memory.grad = memory.facts + FACTS;
    return memory;
}

__device__ inline int me() { return threadIdx.x; }

__device__ constexpr int power_of_two(int n) { return n <= 1 ? 1 : 2 * power_of_two((n + 1) / 2); }

// Sums over a warp of N values a thread, N at most 32: afterwards v[0] is the sum of value
// lane / (32 / N), the same in neighbouring lanes. Halves are exchanged, so that few values travel.
template <int N>
__device__ inline void warp_sums(real (&v)[N]) {
    static_assert(N == power_of_two(N) && N <= 32, "a power of two");
    const int lane = threadIdx.x % 32;
    int bit = 16;
#pragma unroll
    for (int half = N / 2; half >= 1; half /= 2, bit /= 2) {
        const bool upper = lane & bit;
#pragma unroll
        for (int k = 0; k < half; ++k) {
            const real sent = upper ? v[k] : v[k + half], kept = upper ? v[k + half] : v[k];
            v[k] = kept + __shfl_xor_sync(~0u, sent, bit);
        }
    }
#pragma unroll
    for (int k = 16 / N; k >= 1; k /= 2) v[0] += __shfl_xor_sync(~0u, v[0], k);
}

// Sums over a warp of N values a thread, value_of(k), given to take(k, sum) by one thread for each.
// Values are asked for when it is their turn: few are in registers at a time.
template <int N, class Value, class Take>
__device__ inline void warp_sums_of(Value value_of, Take take) {
    constexpr int AT_ONCE = N < 16 ? power_of_two(N) : 16, EACH = 32 / AT_ONCE;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int base = 0; base < N; base += AT_ONCE) {
        real v[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) v[k] = base + k < N ? value_of(base + k < N ? base + k : 0) : real(0);
        warp_sums(v);
        if (lane % EACH == 0 && base + lane / EACH < N) take(base + lane / EACH, v[0]);
    }
}

// Sums over a team, for all of its threads to read in sums.
template <int N, class Value>
__device__ inline void team_sums(const Memory& memory, real* sums, Value value_of) {
    real* own = memory.parts + me() / 32 * SUMS;
    warp_sums_of<N>(value_of, [&](int k, real sum) { own[k] = sum; });
    __syncthreads();
    for (int k = me(); k < N; k += TEAM) {
        real sum = 0;
        for (int w = 0; w < WARPS; ++w) sum += memory.parts[w * SUMS + k];
        sums[k] = sum;
    }
    __syncthreads();
}
