// Moments of all paths.
extern "C" __global__ void __launch_bounds__(THREADS, larger(BOUND / THREADS, 1))
forward(ARGUMENTS, real* out) {
    SET_UP(false)
    const Held<LANES> held(g);
    const int parts = parts_of(COLUMNS);
    for (int model = start; model < models; model += blocks) {
        load_bank(mem, filters + model * BANK);
        scatter(g, held, x, powers, mem, false);
        // All threads of a warp go through the loop together: they exchange sums.
        for (int base = 0; base < COLUMNS; base += THREADS / parts) {
            const int column = base + threadIdx.x / parts;
            const bool counts = column < COLUMNS;
            const Column where = column_of(counts ? column : 0, mem.first, mem.second);
            real* cell = out + (((index_t)model * graphs + number) * COLUMNS + column) * 4;
            moments_of(g, x, where, floors[number * C + where.channel], threadIdx.x % parts, parts,
                       counts ? cell : nullptr);
        }
    }
}
