// Scattering moments of many graphs and models, forward and backward: one block a graph, for some
// models one after another. For small graphs, and for those too large for teams (team.cuh). See
// legs/kernels/fused.py for what is computed.
//
// Compiled at run time with the sizes as constants:
//   real      float or double
//   C, J, M   channels, scales, diffusion steps
//   ALL       1 if any path of two wavelets counts, 0 if only increasing ones
//   WEIGHTED  1 if edges have weights
//   COPIES    1 if nodes stand for several
//   THREADS   of a block
//   SMALL     1 for graphs that fit into a block's registers and shared memory, 0 for any
//   ITEMS     that a thread keeps in registers, for small graphs
//   BOUND     threads of a multiprocessor, which bounds the registers of each

#define LANES ((ALL ? J : J - 1) * C)
#define ROW(k) ((k) - (ALL ? 0 : 1))  // increasing paths never end in the first wavelet
#define CHILD(j) (ALL ? 0 : (j) + 1)  // first wavelet that may follow j
#define PAIRS (ALL ? J * J : J * (J - 1) / 2)
#define COLUMNS ((1 + J + PAIRS) * C)
#define BANK (C * J * M)
// Odd distances from node to node: threads that look at neighbouring nodes find different banks.
#define FIRST ((J * C) | 1)                       // [j][c]
#define SECOND (((ALL ? J : J - 1) * LANES) | 1)  // [wavelet][lane]; pairs that are no path: unused
#define STAGED ((M * C) | 1)
#define NEAR 4  // neighbours of an item whose places a thread remembers

typedef long long index_t;
#if SMALL
typedef int place_t;  // in the memory of a graph
#else
typedef index_t place_t;
#endif

__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// Distance from one state to the next: threads of neighbouring steps find different banks (see
// collect), and behind the items there is a place for a zero.
__device__ inline place_t state_size(place_t items) { return (items + 31) / 32 * 32 + C; }

struct Graph {
    int nodes;
    index_t first;          // its first node
    const index_t* rowptr;  // of its first node
    const index_t* col;
    const unsigned short* near;  // the same, counted from the graph's first node: less to read
    const real* weight;
    const real* inverse;    // 1 / d of its first node
    const real* copies;     // of its first node
    real share;             // of a node in means

    __device__ real edge(index_t e) const { return WEIGHTED ? weight[e] : real(1); }
    __device__ real times(int i) const { return COPIES ? copies[i] : real(1); }
    __device__ int neighbour(index_t e) const { return SMALL ? near[e] : int(col[e] - first); }
};

struct Memory {
    real *bank, *q, *first, *second, *degree;
};

// Filters always lie in shared memory; what grows with the graph does if that is small.
__device__ Memory lay_out(const Graph& g, bool keep, real* scratch) {
    extern __shared__ char raw[];
    real* shared = (real*)raw;
    Memory memory;
    memory.bank = shared;
    // As the host counts it, to know how much to give.
    const int nodes = g.nodes, states = keep || !SMALL ? larger(M, 2) : 2;
    const place_t size = state_size((place_t)nodes * larger(LANES, C)), staged = (place_t)nodes * STAGED;
    memory.q = SMALL ? shared + BANK : scratch;
    memory.first = memory.q + (states * size > staged ? states * size : staged);
    memory.second = memory.first + (place_t)nodes * FIRST;
    memory.degree = memory.second + (place_t)nodes * SECOND;
    for (int i = threadIdx.x; i < nodes; i += THREADS) memory.degree[i] = 1 / g.inverse[i];
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
    const unsigned short *near, const real *weight, const index_t *ptr, const real *copies, const real *inverse, \
    const real *floors, const real *shares, const real *filters, real *scratch, int graphs, int models, int blocks, int per_node, \
    int per_graph, int nodes, int above, int most

// A graph for a block, if it is of this class of sizes, and room for it. Blocks of a graph share
// its models.
#define SET_UP(keep) \
    const int number = blockIdx.x / blocks, start = blockIdx.x % blocks; \
    const index_t begin = ptr[number], size = ptr[number + 1] - begin; \
    if (size <= above || size > most) return; \
    const Graph g = {int(size), begin, rowptr + begin, col, near, weight, inverse + begin, \
                     copies + (COPIES ? begin : 0), shares[number]}; \
    const index_t each = (index_t)nodes * per_node + (index_t)graphs * per_graph; \
    const index_t place = start * each + begin * per_node + (index_t)number * per_graph; \
    const Memory mem = lay_out(g, keep, scratch + place);
