// Moments of all paths, [models, graphs, COLUMNS, 4]; or, from their gradients, those of the filters,
// partial sums per model and graph. Blocks pass over graphs that are not of this class of sizes.
extern "C" __global__ void __launch_bounds__(THREADS, larger(BOUND / THREADS, 1))
scattering(const real* x, const real* powers, const index_t* rowptr, const index_t* col,
           const unsigned short* near, const real* weight, const index_t* ptr,
           const real* multiplicity, const real* inverse, const real* floors, const real* shares,
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
    const Memory mem = lay_out(g, scratch + place);
    const Held<LANES> held(g);
    const real* low = floors + number * C;
    for (int model = start; model < models; model += blocks) {
        load_bank(mem, filters + model * BANK);
        scatter(g, held, x, powers, mem);
        const index_t row = (index_t)model * graphs + number;
#if BACKWARD
        const real *known = moments + row * COLUMNS * 4, *given = grad + row * COLUMNS * 4;
        through_moments(g, mem, low, known, given, (1 + J) * C, COLUMNS, nullptr);
        collect<true>(g, mem, powers, out + row * BANK);
        const real* next = adjoint(g, held, mem);
        through_moments(g, mem, low, known, given, C, (1 + J) * C, next);
        if (!powers) filter<C, false, 0>(g, Held<C>(g), x + g.first * C, C, mem, true, nullptr, 0);
        collect<false>(g, mem, powers, out + row * BANK);
#else
        const int parts = parts_of(COLUMNS);
        // All threads of a warp go through the loop together: they exchange sums.
        for (int base = 0; base < COLUMNS; base += THREADS / parts) {
            const int column = base + threadIdx.x / parts;
            const bool counts = column < COLUMNS;
            const Column where = column_of(counts ? column : 0, mem.first, mem.second);
            real* cell = counts ? out + (row * COLUMNS + column) * 4 : nullptr;
            moments_of(g, x, where, low[where.channel], threadIdx.x % parts, parts, cell);
        }
#endif
    }
}
