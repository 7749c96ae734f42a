// Scattering moments of many graphs and models, forward and backward: one block per graph, for some
// models one after another. See legs/kernels/op.py for what is computed.
//
// Compiled at run time with constants:
//   real      float or double
//   C, J, M   channels, scales, diffusion steps
//   ALL       1 if all pairs of wavelets are paths, 0 for increasing ones
//   WEIGHTED  1 if edges have weights
//   MERGED    1 if nodes have multiplicities
//   OPERATOR  0 for W D^-1, 1 for D^-1 W, 2 for D^-1/2 W D^-1/2
//   BACKWARD  1 for the gradient of the filters
//   THREADS   per block
//   SMALL     1 for graphs that fit into a block's registers and shared memory, 0 for any
//   ITEMS     that a thread keeps in registers; 1 for graphs of any size
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
#define NEAR 4  // neighbors of an item whose places a thread keeps in registers

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
    index_t first;  // its first node
    const index_t *rowptr, *col;
    const unsigned short* near;  // col relative to the first node: fewer bytes
    const real *weight, *inverse, *multiplicity;  // inverse: 1 / d
    real share;  // of a node in means

    __device__ real edge(index_t e) const { return WEIGHTED ? weight[e] : real(1); }
    __device__ real times(int i) const { return MERGED ? multiplicity[i] : real(1); }
    __device__ int neighbor(index_t e) const { return SMALL ? near[e] : int(col[e] - first); }
};

struct Memory {
    real *bank, *q, *first, *second, *after;  // after: a factor of nodes, S

    // Filters are in shared memory always; what grows with the graph is for small graphs. The host
    // computes the same sizes.
    __device__ Memory(const Graph& g, real* shared, real* scratch) {
        const int states = BACKWARD || !SMALL ? larger(M, 2) : 2;
        const place_t nodes = g.nodes;
        bank = shared;
        q = SMALL ? shared + BANK : scratch;
        first = q + states * state_size(nodes * larger(LANES, C));
        second = first + nodes * FIRST;
        after = second + nodes * SECOND;
        for (int i = threadIdx.x; i < g.nodes; i += THREADS) {
            const real degree = 1 / g.inverse[i];
            after[i] = OPERATOR == 0 ? degree : OPERATOR == 1 ? real(1) : sqrt(degree);
        }
    }
};

// Diffusion. The walk is P = (I + W D^-1) / 2. Everything is diffused as q = D^-1 h, because then
//   D^-1 P D = (I + D^-1 W) / 2 = P^T   (W is symmetric):
// one operator, q_i <- (q_i + (1/d_i) sum_j W_ij q_j) / 2, serves forward and backward. The others are
// similar to it, S (D^-1 P D) S^-1 with S = D, I or D^1/2, and their adjoints with D S^-1 for S.
//
// A lane is what one node diffuses in the second order: a parent j and a channel c. An item is a
// lane of a node. In small graphs a thread has up to ITEMS items, and keeps the places of their
// neighbors and their sums in registers: only the states themselves go through shared memory.

__device__ inline real before(const Graph& g, const Memory& mem, int i) {
    return OPERATOR == 0 ? g.inverse[i] : 1 / mem.after[i];
}

// Calls f(register, item) for all items of this thread.
template <class F>
__device__ __forceinline__ void each_item(place_t items, F f) {
    const place_t rounds = SMALL ? ITEMS : (items + THREADS - 1) / THREADS;
#pragma unroll
    for (place_t r = 0; r < rounds; ++r) {
        const place_t item = r * THREADS + threadIdx.x;
        if (item < items) f(SMALL ? int(r) : 0, item);
    }
}

// The channel of a thread's item: the same for all its items where lanes divide threads, so that one
// load of a filter serves them.
template <int L>
__device__ inline int channel_of(place_t item) {
    return (THREADS % L == 0 ? int(threadIdx.x) : int(item % L)) % L % C;
}

// What a thread of a small graph keeps of its items: their first neighbors and, where there is none,
// the place of the zero.
template <int L>
struct Held {
    int near[ITEMS][NEAR], degrees[ITEMS];
    real share[ITEMS][NEAR], inverse[ITEMS];

    __device__ explicit Held(const Graph& g) {
        const int items = g.nodes * L;
        if (!SMALL) return;
        each_item(items, [&](int r, int item) {
            const int i = item / L;
            const index_t from = g.rowptr[i];
            degrees[r] = int(g.rowptr[i + 1] - from);
            inverse[r] = g.inverse[i];
#pragma unroll
            for (int k = 0; k < NEAR; ++k) {
                near[r][k] = k < degrees[r] ? g.neighbor(from + k) * L + item % L : items;
                if (WEIGHTED) share[r][k] = k < degrees[r] ? g.edge(from + k) : real(0);
            }
        });
    }

    // (1/d_i) sum_j W_ij in_j, or W_ij (in_i - in_j) for the difference: edge by edge, so that it is
    // exactly zero for constants. Nothing for a node without neighbors: its states are zero.
    __device__ __forceinline__ real gathered(const Graph& g, const real* in, int r, place_t item,
                                             bool difference) const {
        const int i = item / L, degree = SMALL ? degrees[r] : int(g.rowptr[i + 1] - g.rowptr[i]);
        const real here = difference ? in[item] : real(0);
        real sum = 0;
#pragma unroll
        for (int k = 0; k < (SMALL ? NEAR : 0); ++k) {
            real there = in[near[r][k]];
            if (difference) there = k < degree ? here - there : real(0);
            sum += WEIGHTED ? share[r][k] * there : there;
        }
#pragma unroll 4
        for (int k = SMALL ? NEAR : 0; k < degree; ++k) {
            const index_t e = g.rowptr[i] + k;
            const real there = in[(place_t)g.neighbor(e) * L + item % L];
            sum += g.edge(e) * (difference ? here - there : there);
        }
        return sum * (SMALL ? inverse[r] : g.inverse[i]);
    }

    // One step of the walk, for a thread that has the item's state itself.
    __device__ __forceinline__ real lazy(const Graph& g, const real* in, int r, place_t item, real own) const {
        return (own + gathered(g, in, r, item, false)) / 2;
    }
};

// Diffuses u (absolute values of it, if so) and filters it: out[i][k][lane] for wavelets k >= LOWEST.
// With keep all states stay in q, else only the last two; those of large graphs stay in any case, and
// are filtered in the end.
template <int L, bool ABSOLUTE, int LOWEST>
__device__ void filter(const Graph& g, const Held<L>& held, const real* u, int stride, const Memory& mem,
                       bool keep, real* out, int out_stride) {
    const place_t items = (place_t)g.nodes * L, size = state_size(items);
    real *q = mem.q, *scaled = mem.q + size, sums[ITEMS][J] = {}, own[ITEMS] = {};
    const auto add = [&](int s, place_t first) {
#pragma unroll
        for (int k = LOWEST; k < J; ++k)
#pragma unroll
            for (int r = 0; r < ITEMS; ++r)
                sums[r][k] += mem.bank[(s * J + k) * C + channel_of<L>(first + r * THREADS)] * own[r];
    };
    keep = keep || !SMALL;
    each_item(items, [&](int, place_t item) {
        const real value = u[item / L * stride + item % L] * before(g, mem, item / L);
        scaled[item] = ABSOLUTE ? fabs(value) : value;
    });
    for (int s = threadIdx.x; s < larger(keep ? M : 2, 2); s += THREADS) q[s * size + items] = 0;
    __syncthreads();
    each_item(items, [&](int r, place_t item) {
        q[item] = own[r] = held.gathered(g, scaled, r, item, true) / 2;
    });
    if (SMALL) add(0, threadIdx.x);
    __syncthreads();
#pragma unroll 1
    for (int s = 1; s < M; ++s) {
        real* now = q + (keep ? s : s & 1) * size;
        const real* before = q + (keep ? s - 1 : (s - 1) & 1) * size;
        each_item(items, [&](int r, place_t item) {
            now[item] = own[r] = held.lazy(g, before, r, item, SMALL ? own[r] : before[item]);
        });
        if (SMALL) add(s, threadIdx.x);
        __syncthreads();
    }
    if (!out) return;
    each_item(items, [&](int r, place_t item) {
        if (!SMALL) {
            for (int k = LOWEST; k < J; ++k) sums[r][k] = 0;
            for (int s = 0; s < M; ++s) own[r] = q[s * size + item], add(s, item);
        }
        const real after = mem.after[item / L];
#pragma unroll
        for (int k = LOWEST; k < J; ++k)
            out[item / L * out_stride + (k - LOWEST) * L + item % L] = sums[r][k] * after;
    });
    __syncthreads();
}

// First order, signed: first[i][j][c], from the walk powers if they are given.
__device__ void first_order(const Graph& g, const real* x, const real* powers, const Memory& mem) {
    if (!powers) {
        filter<C, false, 0>(g, Held<C>(g), x + g.first * C, C, mem, false, mem.first, FIRST);
        return;
    }
    for (int item = threadIdx.x; item < g.nodes * C; item += THREADS) {
        const int i = item / C, c = item % C;
        real sums[J] = {};
#pragma unroll 4
        for (int s = 0; s < M; ++s) {
            const real state = powers[((g.first + i) * M + s) * C + c];
#pragma unroll
            for (int k = 0; k < J; ++k) sums[k] += mem.bank[(s * J + k) * C + c] * state;
        }
#pragma unroll
        for (int k = 0; k < J; ++k) mem.first[i * FIRST + k * C + c] = sums[k];
    }
    __syncthreads();
}

// Moments. Where the values of an output column lie:
struct Column {
    real* values;  // null at order 0
    int stride, channel;
};

__device__ inline Column column_of(int column, const Memory& mem) {
    const int path = column / C, c = column % C;
    if (path == 0) return {nullptr, C, c};
    if (path <= J) return {mem.first + (path - 1) * C + c, FIRST, c};
    int rest = path - 1 - J, j = 0;
    for (; rest >= J - CHILD(j); ++j) rest -= J - CHILD(j);
    return {mem.second + ROW(CHILD(j) + rest) * LANES + j * C + c, SECOND, c};
}

// Threads to spare for each of so many sums: neighbors in a warp, a power of two of them.
__device__ inline int parts_of(int sums) {
    int parts = 1;
    while (parts < 32 && 2 * parts * sums <= THREADS) parts *= 2;
    return parts;
}

// How far skewness and kurtosis count at a variance of so many floors, and the slope of that.
struct Fade {
    real fade, slope;
};

__device__ inline Fade fade_of(real ratio) {
    real r = (ratio - 1) / 3;
    r = r < 0 ? real(0) : r > 1 ? real(1) : r;
    return {r * r * r * (10 - 15 * r + 6 * r * r), 10 * r * r * (1 - r) * (1 - r)};
}

// Moments of a column, by threads that share its nodes. Powers are summed in units of sqrt(floor):
// they neither overflow nor vanish where they count.
__device__ void moments_of(const Graph& g, const real* x, Column column, real floor, int part, int parts,
                           real* out) {
    const bool absolute = column.values != nullptr;
    const real* values = absolute ? column.values : x + g.first * C + column.channel;
    const auto value = [&](int i) { return absolute ? fabs(values[i * column.stride]) : values[i * column.stride]; };
    real sum = 0, square = 0, cube = 0, fourth = 0;
    for (int i = part; i < g.nodes; i += parts) sum += g.times(i) * value(i);
    const real mean = sum_over(sum, 1, parts) * g.share, per_unit = 1 / sqrt(floor);
    for (int i = part; i < g.nodes; i += parts) {
        const real d = (value(i) - mean) * per_unit, weighed = g.times(i) * d * d;
        square += weighed;
        cube += weighed * d;
        fourth += weighed * (d * d);
    }
    const real ratio = sum_over(square, 1, parts) * g.share;
    const real per_scale = 1 / sqrt(ratio > 1 ? ratio : real(1)), fade = fade_of(ratio).fade;
    cube = sum_over(cube, 1, parts) * g.share * per_scale * per_scale * per_scale;
    fourth = sum_over(fourth, 1, parts) * g.share * per_scale * per_scale * per_scale * per_scale;
    if (!out || part) return;
    out[0] = mean;
    out[1] = ratio * floor;
    out[2] = fade * cube;
    out[3] = g.nodes ? fade * (fourth - 3) : real(0);
}

#if BACKWARD
// Gradients of the signed coefficients of columns [from, to), written over these. Cube and fourth
// follow from skewness and kurtosis, which the forward computed. The gradient from the next order,
// by item, is added if there is one.
__device__ void through_moments(const Graph& g, const Memory& mem, const real* floors, const real* moments,
                                const real* grad, int from, int to, const real* next) {
    const int parts = parts_of(to - from), part = threadIdx.x % parts;
    for (int column = from + threadIdx.x / parts; column < to; column += THREADS / parts) {
        const Column where = column_of(column, mem);
        const real *moment = moments + column * 4, *given = grad + column * 4;
        const real floor = floors[where.channel], mean = moment[0], ratio = moment[1] / floor;
        const Fade f = fade_of(ratio);
        const real cube = f.fade > 0 ? moment[2] / f.fade : real(0);
        const real fourth = f.fade > 0 ? moment[3] / f.fade + 3 : real(3);
        const real root = sqrt(floor), unit = 1 / root;
        const real per_scale = 1 / sqrt(ratio > 1 ? ratio : real(1)), both = unit * per_scale;
        const real g3 = given[2] * f.fade, g4 = given[3] * f.fade;
        const real above = ratio > 1 ? 1 / ratio : real(0);
        // Of the loss in the variance, times the unit; the loss in units would overflow.
        const real by_variance = given[1] * root + unit * (f.slope * (given[2] * cube + given[3] * (fourth - 3)) -
                                                           above * (real(1.5) * g3 * cube + 2 * g4 * fourth));
        const real by_mean = given[0] - both * (3 * g3 * ratio * per_scale * per_scale + 4 * g4 * cube);
        const int lane = column - C;
        for (int i = part; i < g.nodes; i += parts) {
            real& value = where.values[i * where.stride];
            const real z = value;
            const real centred = (fabs(z) - mean) * unit, d = centred * per_scale;
            real slope = by_mean + 2 * centred * by_variance + both * d * d * (3 * g3 + 4 * g4 * d);
            slope *= g.share;
            if (next && lane < LANES) slope += next[i * LANES + lane];
            value = z > 0 ? slope : z < 0 ? -slope : real(0);
        }
    }
    __syncthreads();
}

// What one order contributes to the gradient of the filters: a thread for a step and a channel, or
// several that share the nodes.
template <bool SECOND_ORDER>
__device__ void collect(const Graph& g, const Memory& mem, const real* powers, real* out) {
    const int parts = parts_of(C * M), part = threadIdx.x % parts;
    const int L = SECOND_ORDER ? LANES : C;
    const place_t size = state_size((place_t)g.nodes * L);
    for (int base = 0; base < C * M; base += THREADS / parts) {
        const int place = base + threadIdx.x / parts;
        const bool counts = place < C * M;
        const int s = counts ? place / C : 0, c = counts ? place % C : 0;
        real sums[J] = {};
        for (int i = part; i < g.nodes; i += parts) {
            const real* values = (SECOND_ORDER ? mem.second + i * SECOND : mem.first + i * FIRST) + c;
            const real after = mem.after[i] * g.times(i);
#pragma unroll
            for (int j = 0; j < L / C; ++j) {
                const bool given = powers && !SECOND_ORDER;
                const real state = given ? powers[((g.first + i) * M + s) * C + c] * g.times(i)
                                         : mem.q[s * size + i * L + j * C + c] * after;
#pragma unroll
                for (int k = SECOND_ORDER ? CHILD(j) : 0; k < J; ++k)
                    sums[k] += values[SECOND_ORDER ? ROW(k) * L + j * C : k * C] * state;
            }
        }
#pragma unroll
        for (int k = 0; k < J; ++k) {
            const real sum = sum_over(sums[k], 1, parts);
            real* cell = out + (c * J + k) * M + s;
            if (counts && part == 0) *cell = SECOND_ORDER ? sum : *cell + sum;
        }
    }
    __syncthreads();
}

__device__ inline real adjoint_factor(const Graph& g, const Memory& mem, int i) {
    return OPERATOR == 0 ? real(1) : g.inverse[i] * mem.after[i];
}

// g_s = sum_k bank_ks gbar_k + P^T g_{s+1}, over the states, which have served. Returns (I - P^T) g_0.
__device__ const real* adjoint(const Graph& g, const Held<LANES>& held, const Memory& mem) {
    const place_t items = (place_t)g.nodes * LANES, size = state_size(items);
    real given[ITEMS][J] = {}, own[ITEMS] = {};
    const auto read = [&](int r, place_t item) {
        const int lane = item % LANES;
#pragma unroll
        for (int k = ALL ? 0 : 1; k < J; ++k)
            given[r][k] = k < CHILD(lane / C) ? real(0) : adjoint_factor(g, mem, item / LANES) *
                                                              mem.second[item / LANES * SECOND + ROW(k) * LANES + lane];
    };
    const auto add = [&](int s, place_t first) {
#pragma unroll
        for (int k = ALL ? 0 : 1; k < J; ++k)
#pragma unroll
            for (int r = 0; r < ITEMS; ++r)
                own[r] += mem.bank[(s * J + k) * C + channel_of<LANES>(first + r * THREADS)] * given[r][k];
    };
    if (SMALL) each_item(items, read);
    // The state before the last one: zero, so that all steps are the same.
    each_item(items, [&](int, place_t item) { mem.q[(M & 1) * size + item] = 0; });
    if (threadIdx.x < 2) mem.q[threadIdx.x * size + items] = 0;
    __syncthreads();
#pragma unroll 1
    for (int s = M - 1; s >= 0; --s) {
        real* now = mem.q + (s & 1) * size;
        const real* before = mem.q + ((s + 1) & 1) * size;
        each_item(items, [&](int r, place_t item) {
            own[r] = held.lazy(g, before, r, item, SMALL ? own[r] : before[item]);
            if (SMALL) return;
            read(r, item), add(s, item);
            now[item] = own[r];
        });
        if (SMALL) {
            add(s, threadIdx.x);
            each_item(items, [&](int r, place_t item) { now[item] = own[r]; });
        }
        __syncthreads();
    }
    each_item(items, [&](int r, place_t item) {
        mem.q[size + item] = held.gathered(g, mem.q, r, item, true) / (2 * adjoint_factor(g, mem, item / LANES));
    });
    __syncthreads();
    return mem.q + size;
}
#endif

// Moments of all paths, [models, graphs, COLUMNS, 4]; or, from their gradients, those of the filters,
// partial sums per model and graph. Blocks pass over graphs that are not of this class of sizes.
extern "C" __global__ void __launch_bounds__(THREADS, larger(BOUND / THREADS, 1))
scattering(const real* x, const real* powers, const index_t* rowptr, const index_t* col,
           const real* weight, const index_t* ptr, const real* multiplicity,
           const unsigned short* near, const real* inverse, const real* floors, const real* shares,
           const real* filters, real* scratch, int graphs, int models, int blocks, int per_node,
           int per_graph, int nodes, int above, int most, const real* moments, const real* grad,
           real* out) {
    // The blocks of a graph share its models.
    const int number = blockIdx.x / blocks, start = blockIdx.x % blocks;
    const index_t begin = ptr[number], size = ptr[number + 1] - begin;
    if (size <= above || size > most) return;
    const Graph g = {int(size), begin, rowptr + begin, col, near, weight, inverse + begin,
                     multiplicity + (MERGED ? begin : 0), shares[number]};
    const index_t each = (index_t)nodes * per_node + (index_t)graphs * per_graph;
    const index_t place = start * each + begin * per_node + (index_t)number * per_graph;
    extern __shared__ char raw[];
    const Memory mem(g, (real*)raw, scratch + place);
    const Held<LANES> held(g);
    const real* low = floors + number * C;
    for (int model = start; model < models; model += blocks) {
        __syncthreads();  // the previous model is done with the filters
        for (int k = threadIdx.x; k < BANK; k += THREADS)  // from [c][k][s] to [s][k][c]
            mem.bank[(k % M * J + k / M % J) * C + k / M / J] = filters[model * BANK + k];
        __syncthreads();
        first_order(g, x, powers, mem);
        filter<LANES, true, ALL ? 0 : 1>(g, held, mem.first, FIRST, mem, BACKWARD, mem.second, SECOND);
        const index_t row = (index_t)model * graphs + number;
#if BACKWARD
        const real *own = moments + row * COLUMNS * 4, *given = grad + row * COLUMNS * 4;
        through_moments(g, mem, low, own, given, (1 + J) * C, COLUMNS, nullptr);
        collect<true>(g, mem, powers, out + row * BANK);
        const real* next = adjoint(g, held, mem);
        through_moments(g, mem, low, own, given, C, (1 + J) * C, next);
        if (!powers) filter<C, false, 0>(g, Held<C>(g), x + g.first * C, C, mem, true, nullptr, 0);
        collect<false>(g, mem, powers, out + row * BANK);
#else
        const int parts = parts_of(COLUMNS);
        // All threads of a warp go through the loop together: they exchange sums.
        for (int base = 0; base < COLUMNS; base += THREADS / parts) {
            const int column = base + threadIdx.x / parts;
            const bool counts = column < COLUMNS;
            const Column where = column_of(counts ? column : 0, mem);
            real* cell = counts ? out + (row * COLUMNS + column) * 4 : nullptr;
            moments_of(g, x, where, low[where.channel], threadIdx.x % parts, parts, cell);
        }
#endif
    }
}
