// Moments of all paths.
extern "C" __global__ void __launch_bounds__(TEAM, larger(BOUND / TEAM, 1))
forward(ARGUMENTS, real* out) {
    const Memory memory = lay_out(false);
    FOR_EACH_GRAPH {
        SET_UP
        const real* low = floors + (index_t)number * C;
        for (int base = 0; base < LANES; base += W) {
            const Group group = GROUP_AT(base);
            real units[SAME];
#pragma unroll
            for (int l = 0; l < SAME; ++l) units[l] = rsqrt(low[group.channel(l)]);
            // The signals themselves, the same for all models, with the lanes of the first wavelet.
            if (base < C)
                moments<W>(
                    g, held, memory, units,
                    [&](int r, int l) {
                        return held.inside(g, r) ? group.x[(r * TEAM + me()) * C + group.channel(l)] : real(0);
                    },
                    [&](int l, Vec<4> found) {
                        found.v[1] *= low[group.channel(l)];
                        for (int model = start; model < models && l < SAME; model += teams)
                            ((Vec<4>*)out)[((index_t)model * graphs + number) * (PATHS * C) + group.channel(l)] = found;
                    });
            for (int model = start; model < models; model += teams) {
                group.load_bank(filters + (index_t)model * (C * J * M));
                Vec<4>* own = (Vec<4>*)out + ((index_t)model * graphs + number) * (PATHS * C);
                First first;
                const auto first_moments = [&](const Group& now, int least) {
                    now.filter(first);
                    moments<W>(
                        g, held, memory, units, [&](int r, int l) { return fabs(first[r][l]); },
                        [&](int l, Vec<4> found) {
                            found.v[1] *= low[now.channel(l)];
                            if (now.parent(l) >= least) own[now.column(l)] = found;
                        });
                };
                if (group.last()) first_moments(group.after(), J - 1);
                first_moments(group, 0);
                Second second;
                group.filter(first, second);
                moments<W * K>(
                    g, held, memory, units, [&](int r, int n) { return fabs(second[r][n]); },
                    [&](int n, Vec<4> found) {
                        found.v[1] *= low[group.channel(n / K)];
                        if (group.counts(n / K, n % K)) own[group.column(n / K, n % K)] = found;
                    });
            }
        }
    }
}
