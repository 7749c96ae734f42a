// A group of lanes: its filters, first and second order.

#define ARGUMENTS const real *x, const real *powers, const real *by_step, const index_t *rowptr, const unsigned short *near, \
    const real *weight, const index_t *ptr, const real *copies, const real *inverse, const real *floors, \
    const real *shares, const real *filters, int nodes, int graphs, int models, int teams, int above, int most
// A graph for a team, if it is of this class of sizes. Teams of a graph share its models.
#define FOR_EACH_GRAPH \
    for (int work = blockIdx.x; work < graphs * teams; work += gridDim.x)
#define SET_UP \
    const int number = work / teams, start = work % teams; \
    const index_t begin = ptr[number], size = ptr[number + 1] - begin; \
    if (size <= above || size > most) continue; \
    const index_t edge = rowptr[begin]; \
    const Graph g = {int(size), begin, near + edge, WEIGHTED ? weight + edge : weight, \
                     copies + (COPIES ? begin : 0), shares[number]}; \
    const Held held(g, rowptr, inverse);
#define GROUP_AT(base) \
    {g, held, memory, x + begin * C, powers + (POWERS ? begin * (M * C) : 0), by_step + (POWERS ? begin : 0), \
     nodes, base}

typedef real First[HELD][W];       // first coefficients of the lanes, signed
typedef real Second[HELD][W * K];  // what becomes of their absolute values

// The filters of a step and a channel, those that second wavelets use first.
__device__ constexpr int place_of(int k) { return ALL ? k : (k + J - 1) % J; }

struct Row {
    real f[ROW];
    __device__ Row(const Memory& memory, int s, int same) {
        constexpr int most = sizeof(real) == 4 ? 4 : 2;
        const Vec<most>* from = (const Vec<most>*)(memory.bank + (s * SAME + same) * ROW);
#pragma unroll
        for (int k = 0; k < ROW / most; ++k)
#pragma unroll
            for (int l = 0; l < most; ++l) f[k * most + l] = from[k].v[l];
    }
    __device__ real operator[](int k) const { return f[place_of(k)]; }
};

struct Group {
    const Graph& g;
    const Held& held;
    const Memory& memory;
    const real *x, *powers;  // of the graph: [node][channel], [node][step][channel]
    const real* by_step;     // powers once more: [step][channel][node], with the nodes of all graphs
    int nodes, base;         // of all graphs; first lane

    __device__ int channel(int l) const { return (base + l) % C; }
    __device__ int parent(int l) const { return (base + l) / C; }
    // Number of the output column of a lane's coefficients, and of those of its child LOW + k.
    __device__ int column(int l) const { return (1 + parent(l)) * C + channel(l); }
    __device__ int column(int l, int k) const {
        const int j = parent(l), before = ALL ? j * J : j * (J - 1) - j * (j - 1) / 2;
        return (1 + J + before + LOW + k - CHILD(j)) * C + channel(l);
    }
    __device__ bool counts(int l, int k) const { return LOW + k >= CHILD(parent(l)); }
    __device__ int lowest() const { return CHILD(base / C) - LOW; }  // of all that counts

    // The last wavelet has no children, so no lanes, unless all paths count: groups of the last
    // parent see to it. What comes after such a group are lanes of the next wavelet, as if there were.
    __device__ bool last() const { return !ALL && base >= LANES - larger(W, C); }
    __device__ Group after() const { return {g, held, memory, x, powers, by_step, nodes, base + C}; }

    // The group's filters of a model, from [c][k][s] to rows [s][c]. A row is read in whole vectors.
    __device__ void load_bank(const real* filters) const {
        __syncthreads();  // the group before has done with them
        for (int n = me(); n < SAME * J * M; n += TEAM) {
            const int s = n % M, k = n / M % J, same = n / (M * J);
            memory.bank[(s * SAME + same) * ROW + place_of(k)] = filters[(channel(same) * J + k) * M + s];
        }
        __syncthreads();
    }

    // The walk power of a lane's channel at a node and a step.
    __device__ real power(int r, int s, int l) const {
        return by_step[(index_t)(s * C + channel(l)) * nodes + r * TEAM + me()];
    }

    // The filter of a lane's first coefficients, at a step.
    __device__ real parent_filter(int s, int l) const {
        return memory.bank[(s * SAME + l % SAME) * ROW + place_of(parent(l))];
    }

    // What is diffused: D^-1 of the signals, or of the lanes' absolute coefficients.
    __device__ void begin(State (&state)[HELD]) const {
#pragma unroll
        for (int r = 0; r < HELD; ++r)
#pragma unroll
            for (int l = 0; l < W; ++l)
                state[r].v[l] =
                    held.inside(g, r) ? x[(r * TEAM + me()) * C + channel(l)] * held.inverse[r] : real(0);
    }
    __device__ void begin(State (&state)[HELD], const First& first) const {
#pragma unroll
        for (int r = 0; r < HELD; ++r)
#pragma unroll
            for (int l = 0; l < W; ++l) state[r].v[l] = fabs(first[r][l]) * held.inverse[r];
    }

    // First coefficients, from the walk powers if they are given.
    __device__ void filter(First& z) const {
#pragma unroll
        for (int r = 0; r < HELD; ++r)
#pragma unroll
            for (int l = 0; l < W; ++l) z[r][l] = 0;
        if (POWERS) {
#pragma unroll 4
            for (int s = 0; s < M; ++s)
#pragma unroll
                for (int l = 0; l < W; ++l) {
                    const real f = parent_filter(s, l);
#pragma unroll
                    for (int r = 0; r < HELD; ++r)
                        if (held.inside(g, r))
                            z[r][l] += f * power(r, s, l);
                }
            return;
        }
        State state[HELD];
        begin(state);
        diffuse(g, held, memory, state, [&](int s, const State(&now)[HELD]) {
#pragma unroll
            for (int l = 0; l < W; ++l)
#pragma unroll
                for (int r = 0; r < HELD; ++r) z[r][l] += parent_filter(s, l) * now[r].v[l];
        });
#pragma unroll
        for (int r = 0; r < HELD; ++r)
#pragma unroll
            for (int l = 0; l < W; ++l) z[r][l] *= 1 / held.inverse[r];
    }

    // Second coefficients, z[node][lane][wavelet], signed.
    __device__ void filter(const First& first, Second& z) const {
#pragma unroll
        for (int r = 0; r < HELD; ++r)
#pragma unroll
            for (int n = 0; n < W * K; ++n) z[r][n] = 0;
        const int least = lowest();
        State state[HELD];
        begin(state, first);
        diffuse(g, held, memory, state, [&](int s, const State(&now)[HELD]) {
#pragma unroll
            for (int l = 0; l < W; ++l) {
                const Row row(memory, s, l % SAME);
#pragma unroll
                for (int k = 0; k < K; ++k)
                    if (k >= least)
#pragma unroll
                        for (int r = 0; r < HELD; ++r) z[r][l * K + k] += row[LOW + k] * now[r].v[l];
            }
        });
#pragma unroll
        for (int r = 0; r < HELD; ++r) {
            const real degree = 1 / held.inverse[r];
#pragma unroll
            for (int n = 0; n < W * K; ++n) z[r][n] *= degree;
        }
    }
};
