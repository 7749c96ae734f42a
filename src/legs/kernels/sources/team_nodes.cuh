// Diffusion. The walk is P = (I + W D^-1) / 2. Everything is diffused as q = D^-1 h, because then
//   D^-1 P D = (I + D^-1 W) / 2 = P^T   (W is symmetric):
// one operator, q_i <- (q_i + (1/d_i) sum_j W_ij q_j) / 2, serves forward and backward.

typedef Vec<W> State;  // of a node: one number a lane of the group

struct Graph {
    int nodes;
    index_t first;               // its first node
    const unsigned short* near;  // neighbours, counted from its first node
    const real* weight;
    const real* copies;
    real share;  // of a node in means
};

// The nodes of a thread: node r is r * TEAM + me().
struct Held {
    unsigned near[HELD][NEAR / 2];  // two places each; without a neighbour: the place of a zero
    int from[HELD], degree[HELD];
    int most[HELD];           // neighbours of any node of the warp
    unsigned together[HELD];  // threads of the warp whose node has so many neighbours that all help
    real share[HELD][NEAR], inverse[HELD];
    real copies[HELD];
    int rounds;  // nodes that any thread of the warp has

    __device__ Held(const Graph& g, const index_t* rowptr, const real* inverses) {
        const index_t start = rowptr[g.first];
        const int begin = me() / 32 * 32;
        rounds = g.nodes <= begin ? 0 : (g.nodes - begin + TEAM - 1) / TEAM;
#pragma unroll
        for (int r = 0; r < HELD; ++r) {
            const int i = r * TEAM + me();
            const bool inside = i < g.nodes;
            from[r] = inside ? int(rowptr[g.first + i] - start) : 0;
            degree[r] = inside ? int(rowptr[g.first + i + 1] - start) - from[r] : 0;
            inverse[r] = inside ? inverses[g.first + i] : real(1);
            copies[r] = COPIES && inside ? g.copies[i] : real(1);
#pragma unroll
            for (int k = 0; k < NEAR; ++k) {
                const unsigned place = k < degree[r] ? g.near[from[r] + k] : g.nodes;
                near[r][k / 2] = k % 2 ? near[r][k / 2] | place << 16 : place;
                share[r][k] = WEIGHTED && k < degree[r] ? g.weight[from[r] + k] : real(0);
            }
            most[r] = degree[r];
            for (int bit = 16; bit; bit /= 2) most[r] = larger(most[r], __shfl_xor_sync(~0u, most[r], bit));
            together[r] = __ballot_sync(~0u, degree[r] > LONG);
            if (__popc(together[r]) > 8) together[r] = 0;  // long all alike: each goes through its own
        }
    }

    __device__ real times(int r) const { return COPIES ? copies[r] : real(1); }
    __device__ bool inside(const Graph& g, int r) const { return r * TEAM + me() < g.nodes; }

    // (1/d_i) sum_j W_ij in_j, or W_ij (here - in_j) for the difference: edge by edge, so that it is
    // exactly zero for constants. Nothing for a node without neighbours: its states are zero.
    template <bool DIFFERENCE>
    __device__ State gathered(const Graph& g, const State* in, int r, const State& here) const {
        State sum = {};
#pragma unroll
        for (int k = 0; k < NEAR; ++k) {
            if (k % 2 == 0 && k >= most[r]) break;
            const State there = in[k % 2 ? near[r][k / 2] >> 16 : near[r][k / 2] & 0xffff];
#pragma unroll
            for (int l = 0; l < W; ++l) {
                const real one = !DIFFERENCE ? there.v[l] : k < degree[r] ? here.v[l] - there.v[l] : real(0);
                sum.v[l] += WEIGHTED ? share[r][k] * one : one;
            }
        }
        if (most[r] > NEAR) {
            const bool helped = together[r] && degree[r] > LONG;
#pragma unroll 4
            for (int k = from[r] + NEAR; k < from[r] + (helped ? 0 : degree[r]); ++k)
                add<DIFFERENCE>(g, in, k, here, sum);
            for (unsigned rest = together[r]; rest; rest &= rest - 1)
                help<DIFFERENCE>(g, in, r, __ffs(rest) - 1, here, sum);
        }
#pragma unroll
        for (int l = 0; l < W; ++l) sum.v[l] *= inverse[r];
        return sum;
    }

    // All threads of a warp go through the neighbours of one thread's node.
    template <bool DIFFERENCE>
    __device__ void help(const Graph& g, const State* in, int r, int owner, const State& here, State& sum) const {
        const int begin = __shfl_sync(~0u, from[r], owner), count = __shfl_sync(~0u, degree[r], owner);
        const int lane = threadIdx.x % 32;
        State centre = here, part = {};
        if (DIFFERENCE)
#pragma unroll
            for (int l = 0; l < W; ++l) centre.v[l] = __shfl_sync(~0u, here.v[l], owner);
        for (int k = begin + NEAR + lane; k < begin + count; k += 32) add<DIFFERENCE>(g, in, k, centre, part);
#pragma unroll
        for (int l = 0; l < W; ++l) {
            for (int bit = 16; bit; bit /= 2) part.v[l] += __shfl_xor_sync(~0u, part.v[l], bit);
            if (lane == owner) sum.v[l] += part.v[l];
        }
    }

    template <bool DIFFERENCE>
    __device__ static void add(const Graph& g, const State* in, int edge, const State& here, State& sum) {
        const State there = in[g.near[edge]];
        const real w = WEIGHTED ? g.weight[edge] : real(1);
#pragma unroll
        for (int l = 0; l < W; ++l) sum.v[l] += w * (DIFFERENCE ? here.v[l] - there.v[l] : there.v[l]);
    }
};

__device__ inline State halved(const State& a, const State& b) {
    State out;
#pragma unroll
    for (int l = 0; l < W; ++l) out.v[l] = (a.v[l] + b.v[l]) / 2;
    return out;
}

// Room for two states of all nodes; behind the nodes of each there is a place for a zero.
struct Rooms {
    State* start;
    __device__ Rooms(const Graph& g, const Memory& memory) {
        start = (State*)memory.states;
        if (me() < 2) room(me())[g.nodes] = {};
    }
    __device__ State* room(int which) const { return start + which * (CAPACITY + 1); }
    __device__ void put(const Graph& g, int which, int r, const State& value) const {
        const int i = r * TEAM + me();
        if (i < g.nodes) room(which)[i] = value;
    }
};

// Diffuses a signal, given as D^-1 of it: (I - P) of it first, then one step further at a time.
// Every state is shown to visit(step, state).
template <class Visit>
__device__ inline void diffuse(const Graph& g, const Held& held, const Memory& memory, State (&state)[HELD],
                               Visit visit) {
    const Rooms rooms(g, memory);
#pragma unroll
    for (int r = 0; r < HELD; ++r) rooms.put(g, 1, r, state[r]);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < HELD; ++r) {
        if (r >= held.rounds) break;
        state[r] = halved(held.gathered<true>(g, rooms.room(1), r, state[r]), State{});
        rooms.put(g, 0, r, state[r]);
    }
    visit(0, state);
    __syncthreads();
#pragma unroll 1
    for (int s = 1; s < M; ++s) {
        const State* before = rooms.room((s - 1) & 1);
#pragma unroll
        for (int r = 0; r < HELD; ++r) {
            if (r >= held.rounds) break;
            state[r] = halved(state[r], held.gathered<false>(g, before, r, state[r]));
            rooms.put(g, s & 1, r, state[r]);
        }
        visit(s, state);
        __syncthreads();
    }
}
