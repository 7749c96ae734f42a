// The same for graphs of any size: one block a graph, for some models one after another, and
// everything that grows with the graph in global memory. The few largest graphs come here.
//
// Compiled at run time with the sizes as constants: real, C, J, M, ALL, WEIGHTED and W as in team.cuh;
// THREADS of a block.

#define LANES ((ALL ? J : J - 1) * C)
#define ROW(k) ((k) - (ALL ? 0 : 1))  // increasing paths never end in the first wavelet
#define CHILD(j) (ALL ? 0 : (j) + 1)  // first wavelet that may follow j
#define PAIRS (ALL ? J * J : J * (J - 1) / 2)
#define COLUMNS ((1 + J + PAIRS) * C)
#define BANK (C * J * M)
#define FIRST ((J * C) | 1)                       // [j][c]
#define SECOND (((ALL ? J : J - 1) * LANES) | 1)  // [wavelet][lane]; pairs that are no path: unused

typedef long long index_t;

__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// Distance from one state to the next.
__device__ inline index_t state_size(index_t items) { return (items + 31) / 32 * 32 + C; }

struct Graph {
    int nodes;
    index_t first;          // its first node
    const index_t* rowptr;  // of its first node
    const index_t* col;
    const real* weight;
    const real* inverse;    // 1 / d of its first node

    __device__ real edge(index_t e) const { return WEIGHTED ? weight[e] : real(1); }
    __device__ int neighbour(index_t e) const { return int(col[e] - first); }
};

struct Memory {
    real *bank, *q, *first, *second, *degree;
};

// Filters lie in shared memory, what grows with the graph in scratch.
__device__ Memory lay_out(const Graph& g, real* scratch) {
    extern __shared__ char raw[];
    Memory memory;
    memory.bank = (real*)raw;
    memory.q = scratch;
    memory.first = memory.q + larger(M, 2) * state_size(g.nodes * larger(LANES, C));
    memory.second = memory.first + (index_t)g.nodes * FIRST;
    memory.degree = memory.second + (index_t)g.nodes * SECOND;
    for (int i = threadIdx.x; i < g.nodes; i += THREADS) memory.degree[i] = 1 / g.inverse[i];
    return memory;
}

// The filters of a model, from [c][k][s] to [s][k][c].
__device__ void load_bank(const Memory& mem, const real* filters) {
    __syncthreads();  // the model before has done with them
    for (int k = threadIdx.x; k < BANK; k += THREADS)
        mem.bank[(k % M * J + k / M % J) * C + k / M / J] = filters[k];
    __syncthreads();
}

#define ARGUMENTS const real *x, const real *powers, const index_t *rowptr, const index_t *col, \
    const real *weight, const index_t *ptr, const real *inverse, const real *floors, \
    const real *filters, real *scratch, int graphs, int models, int blocks, int per_node, \
    int per_graph, int nodes, int above, int most

// A graph for a block, if it is of this class of sizes, and room for it. Blocks of a graph share
// its models.
#define SET_UP \
    const int number = blockIdx.x / blocks, start = blockIdx.x % blocks; \
    const index_t begin = ptr[number], size = ptr[number + 1] - begin; \
    if (size <= above || size > most) return; \
    const Graph g = {int(size), begin, rowptr + begin, col, weight, inverse + begin}; \
    const index_t each = (index_t)nodes * per_node + (index_t)graphs * per_graph; \
    const index_t place = start * each + begin * per_node + (index_t)number * per_graph; \
    const Memory mem = lay_out(g, scratch + place);

// Diffusion, as in nodes.cuh. A lane is what one node diffuses in the second order: a parent j and a
// channel c. An item is a lane of a node.

// (1/d_i) sum_j W_ij in_j, or W_ij (in_i - in_j) for the difference.
template <int L, bool DIFFERENCE>
__device__ real gathered(const Graph& g, const real* in, int i, int lane) {
    real sum = 0;
    for (index_t e = g.rowptr[i]; e < g.rowptr[i + 1]; ++e) {
        const real there = in[(index_t)g.neighbour(e) * L + lane];
        sum += g.edge(e) * (DIFFERENCE ? in[(index_t)i * L + lane] - there : there);
    }
    return sum * g.inverse[i];
}

// One step of the walk at one item.
template <int L>
__device__ real lazy(const Graph& g, const real* in, int i, int lane) {
    return (in[(index_t)i * L + lane] + gathered<L, false>(g, in, i, lane)) / 2;
}

// Diffuses u (absolute values of it, if so) and filters it: out[i][k][lane] for wavelets k >= LOWEST.
// All states stay in q.
template <int L, bool ABSOLUTE, int LOWEST>
__device__ void filter(const Graph& g, const real* u, int stride, const Memory& mem, real* out, int out_stride) {
    const index_t items = (index_t)g.nodes * L, size = state_size(items);
    real *q = mem.q, *scaled = mem.q + size;
    for (index_t item = threadIdx.x; item < items; item += THREADS) {
        const real value = u[item / L * stride + item % L] * g.inverse[item / L];
        scaled[item] = ABSOLUTE ? fabs(value) : value;
    }
    __syncthreads();
    for (index_t item = threadIdx.x; item < items; item += THREADS)
        q[item] = gathered<L, true>(g, scaled, item / L, item % L) / 2;
    __syncthreads();
    for (int s = 1; s < M; ++s) {
        for (index_t item = threadIdx.x; item < items; item += THREADS)
            q[s * size + item] = lazy<L>(g, q + (s - 1) * size, item / L, item % L);
        __syncthreads();
    }
    if (!out) return;
    for (index_t item = threadIdx.x; item < items; item += THREADS) {
        real sums[J];
        for (int k = LOWEST; k < J; ++k) sums[k] = 0;
        for (int s = 0; s < M; ++s)
            for (int k = LOWEST; k < J; ++k)
                sums[k] += mem.bank[(s * J + k) * C + item % L % C] * q[s * size + item];
        for (int k = LOWEST; k < J; ++k)
            out[item / L * out_stride + (k - LOWEST) * L + item % L] = sums[k] * mem.degree[item / L];
    }
    __syncthreads();
}

// First order, signed: first[i][j][c], from the walk powers if they are given.
__device__ void first_order(const Graph& g, const real* x, const real* powers, const Memory& mem) {
    if (!powers) {
        filter<C, false, 0>(g, x + g.first * C, C, mem, mem.first, FIRST);
        return;
    }
    for (index_t item = threadIdx.x; item < (index_t)g.nodes * C; item += THREADS) {
        const index_t i = item / C, c = item % C;
        real sums[J];
        for (int k = 0; k < J; ++k) sums[k] = 0;
        for (int s = 0; s < M; ++s) {
            const real state = powers[((g.first + i) * M + s) * C + c];
            for (int k = 0; k < J; ++k) sums[k] += mem.bank[(s * J + k) * C + c] * state;
        }
        for (int k = 0; k < J; ++k) mem.first[i * FIRST + k * C + c] = sums[k];
    }
    __syncthreads();
}

// Both orders of one model.
__device__ void scatter(const Graph& g, const real* x, const real* powers, const Memory& mem) {
    first_order(g, x, powers, mem);
    filter<LANES, true, ALL ? 0 : 1>(g, mem.first, FIRST, mem, mem.second, SECOND);
}
