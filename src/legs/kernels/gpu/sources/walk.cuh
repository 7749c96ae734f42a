// Diffusion. The walk is P = (I + W D^-1) / 2. Everything is diffused as q = D^-1 h, because then
//   D^-1 P D = (I + D^-1 W) / 2 = P^T   (W is symmetric):
// one operator, q_i <- (q_i + (1/d_i) sum_j W_ij q_j) / 2, serves forward and backward.
//
// A lane is what one node diffuses in the second order: a parent j and a channel c. An item is a
// lane of a node. In small graphs a thread has up to ITEMS items, and keeps the places of their
// neighbors and their sums in registers: only the states themselves go through shared memory.

// (1/d_i) sum_j W_ij in_j, or W_ij (in_i - in_j) for the difference: edge by edge, so that it is
// exactly zero for constants. Nothing for a node without neighbors: its states are zero.
template <int L, bool DIFFERENCE>
__device__ real gathered(const Graph& g, const real* in, int i, int lane) {
    real sum = 0;
    for (index_t e = g.rowptr[i]; e < g.rowptr[i + 1]; ++e) {
        const real there = in[(place_t)g.neighbor(e) * L + lane];
        sum += g.edge(e) * (DIFFERENCE ? in[(place_t)i * L + lane] - there : there);
    }
    return sum * g.inverse[i];
}

// One step of the walk at one item.
template <int L>
__device__ real lazy(const Graph& g, const real* in, int i, int lane) {
    return (in[(place_t)i * L + lane] + gathered<L, false>(g, in, i, lane)) / 2;
}

// The items of one thread, and their first neighbors; where there is none, the place of the zero.
template <int L>
struct Held {
#if SMALL
    int near[ITEMS][NEAR], degree[ITEMS];
    real share[ITEMS][NEAR], inverse[ITEMS];

    __device__ explicit Held(const Graph& g) {
        const int items = g.nodes * L;
#pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            const int item = r * THREADS + threadIdx.x;
            const bool counts = item < items;
            const int i = counts ? item / L : 0;
            const index_t from = g.rowptr[i];
            degree[r] = counts ? int(g.rowptr[i + 1] - from) : 0;
            inverse[r] = g.inverse[i];
#pragma unroll
            for (int k = 0; k < NEAR; ++k) {
                near[r][k] = k < degree[r] ? g.neighbor(from + k) * L + item % L : items;
                if (WEIGHTED) share[r][k] = k < degree[r] ? g.edge(from + k) : real(0);
            }
        }
    }

    template <bool DIFFERENCE>
    __device__ real gathered(const Graph& g, const real* in, int r) const {
        const int item = r * THREADS + threadIdx.x;
        const real here = DIFFERENCE ? in[item] : real(0);
        real sum = 0;
#pragma unroll
        for (int k = 0; k < NEAR; ++k) {
            real there = in[near[r][k]];
            if (DIFFERENCE) there = k < degree[r] ? here - there : real(0);
            sum += WEIGHTED ? share[r][k] * there : there;
        }
#pragma unroll 4
        for (int k = NEAR; k < degree[r]; ++k) {
            const index_t e = g.rowptr[item / L] + k;
            const real there = in[g.neighbor(e) * L + item % L];
            sum += g.edge(e) * (DIFFERENCE ? here - there : there);
        }
        return sum * inverse[r];
    }

    // One step of the walk, for a thread that has the item's state itself.
    __device__ real lazy(const Graph& g, const real* in, int r, real own) const {
        return (own + gathered<false>(g, in, r)) / 2;
    }
#else
    __device__ explicit Held(const Graph&) {}
#endif
};

// The channel of a thread's item: the same for all its items where lanes divide threads, so that one
// load of a filter serves them.
template <int L>
__device__ inline int channel_of(int item) {
    return (THREADS % L == 0 ? int(threadIdx.x) : item) % L % C;
}

// Whether a whole warp has nothing to do from its item r on.
__device__ inline bool idle(int r, place_t items) { return r * THREADS + int(threadIdx.x & ~31) >= items; }

// Diffuses u (absolute values of it, if so) and filters it: out[i][k][lane] for wavelets k >= LOWEST.
// With keep all states stay in q, else only the last two.
template <int L, bool ABSOLUTE, int LOWEST>
__device__ void filter(const Graph& g, const Held<L>& held, const real* u, int stride, const Memory& mem,
                       bool keep, real* out, int out_stride) {
    const place_t items = (place_t)g.nodes * L, size = state_size(items);
    real *q = mem.q, *scaled = mem.q + size;
    for (place_t item = threadIdx.x; item < items; item += THREADS) {
        const real value = u[item / L * stride + item % L] * g.inverse[item / L];
        scaled[item] = ABSOLUTE ? fabs(value) : value;
    }
#if SMALL
    if (threadIdx.x < (keep ? M : 2)) q[threadIdx.x * size + items] = 0;
    if (threadIdx.x == 0) scaled[items] = 0;
    __syncthreads();
    real sums[ITEMS][J], own[ITEMS];
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        const int item = r * THREADS + threadIdx.x, c = channel_of<L>(item);
        own[r] = item < items ? held.template gathered<true>(g, scaled, r) / 2 : real(0);
        if (item < items) q[item] = own[r];
#pragma unroll
        for (int k = LOWEST; k < J; ++k) sums[r][k] = mem.bank[k * C + c] * own[r];
    }
    __syncthreads();
#pragma unroll 1
    for (int s = 1; s < M; ++s) {
        real* now = q + (keep ? s : s & 1) * size;
        const real* before = q + (keep ? s - 1 : (s - 1) & 1) * size;
#pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            if (idle(r, items)) break;
            const int item = r * THREADS + threadIdx.x;
            own[r] = held.lazy(g, before, r, own[r]);
            if (item < items) now[item] = own[r];
        }
#pragma unroll
        for (int k = LOWEST; k < J; ++k)
#pragma unroll
            for (int r = 0; r < ITEMS; ++r)
                sums[r][k] += mem.bank[(s * J + k) * C + channel_of<L>(r * THREADS + threadIdx.x)] * own[r];
        __syncthreads();
    }
    if (!out) return;
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        const int item = r * THREADS + threadIdx.x;
        if (item >= items) break;
        const real degree = mem.degree[item / L];
#pragma unroll
        for (int k = LOWEST; k < J; ++k)
            out[item / L * out_stride + (k - LOWEST) * L + item % L] = sums[r][k] * degree;
    }
#else
    __syncthreads();
    for (place_t item = threadIdx.x; item < items; item += THREADS)
        q[item] = gathered<L, true>(g, scaled, item / L, item % L) / 2;
    __syncthreads();
    for (int s = 1; s < M; ++s) {
        for (place_t item = threadIdx.x; item < items; item += THREADS)
            q[s * size + item] = lazy<L>(g, q + (s - 1) * size, item / L, item % L);
        __syncthreads();
    }
    if (!out) return;
    for (place_t item = threadIdx.x; item < items; item += THREADS) {
        real sums[J];
        for (int k = LOWEST; k < J; ++k) sums[k] = 0;
        for (int s = 0; s < M; ++s)
            for (int k = LOWEST; k < J; ++k)
                sums[k] += mem.bank[(s * J + k) * C + item % L % C] * q[s * size + item];
        for (int k = LOWEST; k < J; ++k)
            out[item / L * out_stride + (k - LOWEST) * L + item % L] = sums[k] * mem.degree[item / L];
    }
#endif
    __syncthreads();
}

// First order, signed: first[i][j][c], from the walk powers if they are given.
__device__ void first_order(const Graph& g, const real* x, const real* powers, const Memory& mem) {
    if (!powers) {
        filter<C, false, 0>(g, Held<C>(g), x + g.first * C, C, mem, false, mem.first, FIRST);
        return;
    }
    const real* given = powers + g.first * M * C;
    for (int k = threadIdx.x; k < g.nodes * M * C; k += THREADS)
        mem.q[k / (M * C) * STAGED + k % (M * C)] = given[k];
    __syncthreads();
    for (int item = threadIdx.x; item < g.nodes * C; item += THREADS) {
        const int i = item / C, c = item % C;
        real sums[J];
#pragma unroll
        for (int k = 0; k < J; ++k) sums[k] = 0;
#pragma unroll 4
        for (int s = 0; s < M; ++s) {
            const real state = mem.q[i * STAGED + s * C + c];
#pragma unroll
            for (int k = 0; k < J; ++k) sums[k] += mem.bank[(s * J + k) * C + c] * state;
        }
#pragma unroll
        for (int k = 0; k < J; ++k) mem.first[i * FIRST + k * C + c] = sums[k];
    }
    __syncthreads();
}

// Both orders of one model.
__device__ void scatter(const Graph& g, const Held<LANES>& held, const real* x, const real* powers,
                        const Memory& mem) {
    first_order(g, x, powers, mem);
    filter<LANES, true, ALL ? 0 : 1>(g, held, mem.first, FIRST, mem, BACKWARD, mem.second, SECOND);
}
