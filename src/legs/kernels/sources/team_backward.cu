// The way back: from gradients of the moments to the gradient of the filters. Nothing is kept from
// the way forth but the moments: signals are diffused again where their states are needed.

// Diffuses from a state, and adds at every step the sums over all nodes of N values, value_of(state, n),
// to the gradient at cell_of(n).
template <int N, class Value, class Cell>
__device__ inline void collect(const Group& group, State (&state)[HELD], Value value_of, Cell cell_of) {
    const Memory& memory = group.memory;
    // Sums of the warps wait for the others in one of two places, and are added a step later.
    const auto flush = [&](int s) {
        for (int n = me(); n < N; n += TEAM) {
            real sum = 0;
            for (int w = 0; w < WARPS; ++w) sum += memory.parts[((s & 1) * WARPS + w) * N + n];
            memory.grad[cell_of(n) * M + s] += sum;
        }
    };
    diffuse(group.g, group.held, memory, state, [&](int s, const State(&now)[HELD]) {
        if (s > 0) flush(s - 1);
        warp_sums_of<N>([&](int n) { return value_of(now, n); },
                        [&](int n, real sum) {
                            memory.parts[((s & 1) * WARPS + me() / 32) * N + n] = sum;
                        });
    });
    flush(M - 1);
    __syncthreads();
}

// Of the second order: <gbar_k, h_s>, with gbar in z. Lanes of the same channel share a filter.
__device__ inline void collect_second(const Group& group, const First& first, const Second& z) {
    State state[HELD];
    group.begin(state, first);
    collect<SAME * K>(
        group, state,
        [&](const State(&now)[HELD], int n) {
            real sum = 0;
#pragma unroll
            for (int r = 0; r < HELD; ++r) {
                real part = 0;
#pragma unroll
                for (int l = n / K; l < W; l += SAME) part += z[r][l * K + n % K] * now[r].v[l];
                sum += part * (group.held.times(r) / group.held.inverse[r]);
            }
            return sum;
        },
        [&](int n) { return group.channel(n / K) * J + LOW + n % K; });
}

// Of the first order, with gradients of the lanes' coefficients in z.
__device__ inline void collect_first(const Group& group, const First& z) {
    const auto cell_of = [&](int l) { return group.channel(l) * J + group.parent(l); };
    if (!POWERS) {
        State state[HELD];
        group.begin(state);
        collect<W>(
            group, state,
            [&](const State(&now)[HELD], int l) {
                real sum = 0;
#pragma unroll
                for (int r = 0; r < HELD; ++r)
                    sum += z[r][l] * (now[r].v[l] * (group.held.times(r) / group.held.inverse[r]));
                return sum;
            },
            cell_of);
        return;
    }
    // A thread for a step and a lane, or several that share the nodes.
    constexpr int PLACES = M * W < TEAM ? M * W : TEAM, PARTS = TEAM / PLACES;
    const Memory& memory = group.memory;
    const Rooms rooms(group.g, memory);
#pragma unroll
    for (int r = 0; r < HELD; ++r) {
        State own;
#pragma unroll
        for (int l = 0; l < W; ++l) own.v[l] = z[r][l] * group.held.times(r);
        rooms.put(group.g, 0, r, own);
    }
    __syncthreads();
    const int part = me() / PLACES;
    for (int base = 0; base < M * W; base += PLACES) {
        const int place = base + me() % PLACES, s = place / W, l = place % W;
        const bool counts = part < PARTS && place < M * W;
        real sum = 0;
        for (int i = counts ? part : group.g.nodes; i < group.g.nodes; i += PARTS)
            sum += memory.states[i * W + l] * group.powers[((index_t)i * M + s) * C + group.channel(l)];
        if (PARTS > 1) {
            memory.parts[me()] = sum;
            __syncthreads();
        }
        if (counts && part == 0) {
            for (int p = 1; p < PARTS; ++p) sum += memory.parts[me() + p * PLACES];
            memory.grad[cell_of(l) * M + s] += sum;
        }
        if (PARTS > 1) __syncthreads();
    }
    __syncthreads();
}

// g_s = sum_k bank_ks gbar_k + P^T g_{s+1}; gives (I - P^T) g_0, the gradient in what was filtered.
__device__ inline void adjoint(const Group& group, const Second& z, State (&state)[HELD]) {
    const Graph& g = group.g;
    const Held& held = group.held;
    const int least = group.lowest();
    const Rooms rooms(g, group.memory);
#pragma unroll
    for (int r = 0; r < HELD; ++r) state[r] = {};
#pragma unroll 1
    for (int s = M - 1; s >= 0; --s) {
        const State* before = rooms.room((s + 1) & 1);
        if (s < M - 1)
#pragma unroll
            for (int r = 0; r < HELD; ++r) {
                if (r >= held.rounds) break;
                state[r] = halved(state[r], held.gathered<false>(g, before, r, state[r]));
            }
#pragma unroll
        for (int l = 0; l < W; ++l) {
            const Row row(group.memory, s, l % SAME);
#pragma unroll
            for (int k = 0; k < K; ++k)
                if (k >= least)
#pragma unroll
                    for (int r = 0; r < HELD; ++r) state[r].v[l] += row[LOW + k] * z[r][l * K + k];
        }
#pragma unroll
        for (int r = 0; r < HELD; ++r) rooms.put(g, s & 1, r, state[r]);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < HELD; ++r) {
        if (r >= held.rounds) break;
        state[r] = halved(held.gathered<true>(g, rooms.room(0), r, state[r]), State{});
    }
    __syncthreads();
}

// Gradient of the filters: partial sums, one a graph and model.
extern "C" __global__ void __launch_bounds__(TEAM, larger(BOUND / TEAM, 1))
backward(ARGUMENTS, const real* known, const real* given, real* grad_filters) {
    const Memory memory = lay_out(true);
    Facts *of_second = (Facts*)memory.facts, *of_first = of_second + W * K;
    FOR_EACH_GRAPH {
        SET_UP
        for (int model = start; model < models; model += teams) {
            __syncthreads();  // the gradient before has been written
            for (int k = me(); k < GRAD; k += TEAM) memory.grad[k] = 0;
            const index_t place = (index_t)model * graphs + number;
            const auto facts_of = [&](const Group& now, int l, int column) {
                const index_t at = (place * (PATHS * C) + column) * 4;
                return Facts(g, floors[(index_t)number * C + now.channel(l)], known + at, given + at);
            };
            for (int base = 0; base < LANES; base += W) {
                const Group group = GROUP_AT(base);
                group.load_bank(filters + (index_t)model * (C * J * M));
                First first;
                if (group.last()) {
                    const Group now = group.after();
                    now.filter(first);
#pragma unroll
                    for (int l = 0; l < W; ++l) {
                        const bool counts = now.parent(l) == J - 1;
                        const Facts facts = facts_of(now, l, counts ? now.column(l) : 0);
#pragma unroll
                        for (int r = 0; r < HELD; ++r) first[r][l] = counts ? facts.slope(first[r][l]) : real(0);
                    }
                    collect_first(now, first);
                }
                for (int n = me(); n < W * (K + 1); n += TEAM) {
                    const int l = n < W * K ? n / K : n - W * K;
                    const bool counts = n >= W * K || group.counts(l, n % K);
                    const int column = n >= W * K ? group.column(l) : counts ? group.column(l, n % K) : 0;
                    Facts facts = facts_of(group, l, column);
                    if (!counts) facts.forget();
                    of_second[n] = facts;
                }
                group.filter(first);
                __syncthreads();
                Second second;
                group.filter(first, second);
#pragma unroll
                for (int n = 0; n < W * K; ++n) {
                    const Facts facts = of_second[n];
#pragma unroll
                    for (int r = 0; r < HELD; ++r) second[r][n] = facts.slope(second[r][n]);
                }
                collect_second(group, first, second);
                State back[HELD];
                adjoint(group, second, back);
#pragma unroll
                for (int l = 0; l < W; ++l) {
                    const Facts facts = of_first[l];
#pragma unroll
                    for (int r = 0; r < HELD; ++r)
                        first[r][l] = held.inside(g, r) ? facts.slope(first[r][l], back[r].v[l]) : real(0);
                }
                collect_first(group, first);
            }
            for (int k = me(); k < GRAD; k += TEAM) grad_filters[place * GRAD + k] = memory.grad[k];
        }
    }
}
