// Scattering moments of many graphs and models, forward and backward: one block per graph, for some
// models one after another. See legs/kernels/op.py for what is computed.
//
// Compiled at run time with constants:
//   real      float or double
//   C, J, M   channels, scales, diffusion steps
//   ALL       1 if all pairs of wavelets are paths, 0 for increasing ones
//   WEIGHTED  1 if edges have weights
//   MERGED    1 if nodes have multiplicities
//   BACKWARD  1 for the gradient of the filters
//   THREADS   per block
//   SMALL     1 for graphs that fit into a block's registers and shared memory, 0 for any
//   ITEMS     that a thread keeps in registers, for small graphs
//   BOUND     threads of a multiprocessor, which bounds the registers of each

#define LANES ((ALL ? J : J - 1) * C)
#define ROW(k) ((k) - (ALL ? 0 : 1))  // increasing paths never end in the first wavelet
#define CHILD(j) (ALL ? 0 : (j) + 1)  // first wavelet that may follow j
#define PAIRS (ALL ? J * J : J * (J - 1) / 2)
#define COLUMNS ((1 + J + PAIRS) * C)
#define BANK (C * J * M)
// Odd distances from node to node: threads at neighboring nodes use different banks.
#define FIRST ((J * C) | 1)                       // [j][c]
#define SECOND (((ALL ? J : J - 1) * LANES) | 1)  // [wavelet][lane]; pairs that are no path: unused
#define STAGED ((M * C) | 1)
#define NEAR 4  // neighbors of an item whose places a thread keeps in registers

typedef long long index_t;
#if SMALL
typedef int place_t;  // in the memory of a graph
#else
typedef index_t place_t;
#endif

__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// Distance from one state to the next: threads at neighboring steps use different banks (see
// collect), and behind the items there is a place for a zero.
__device__ inline place_t state_size(place_t items) { return (items + 31) / 32 * 32 + C; }

struct Graph {
    int nodes;
    index_t first;          // its first node
    const index_t* rowptr;  // of its first node
    const index_t* col;
    const unsigned short* near;  // the same, relative to the first node: fewer bytes
    const real* weight;
    const real* inverse;    // 1 / d of its first node
    const real* multiplicity;  // of its first node
    real share;             // of a node in means

    __device__ real edge(index_t e) const { return WEIGHTED ? weight[e] : real(1); }
    __device__ real times(int i) const { return MERGED ? multiplicity[i] : real(1); }
    __device__ int neighbor(index_t e) const { return SMALL ? near[e] : int(col[e] - first); }
};

struct Memory {
    real *bank, *q, *first, *second, *degree;
};

// Filters are in shared memory always; what grows with the graph is for small graphs.
__device__ Memory lay_out(const Graph& g, real* scratch) {
    extern __shared__ char raw[];
    real* shared = (real*)raw;
    Memory memory;
    memory.bank = shared;
    // The host computes the same sizes.
    const int nodes = g.nodes, states = BACKWARD || !SMALL ? larger(M, 2) : 2;
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
    __syncthreads();  // the previous model is done with them
    for (int k = threadIdx.x; k < BANK; k += THREADS)
        mem.bank[(k % M * J + k / M % J) * C + k / M / J] = filters[k];
    __syncthreads();
}
