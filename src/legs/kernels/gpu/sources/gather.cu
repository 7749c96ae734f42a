// Graphs of a data set side by side in tensors of fixed size; see legs.training.stacked.replay.
// Compiled at run time with constants: real, THREADS of a block, CHANNELS of a node, FILLERS.

// Which of the graphs has place i: the first that ends behind it.
__device__ int owner(const index_t* ends, int slots, index_t i) {
    int low = 0, high = slots - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ends[2 * middle] > i) high = middle;
        else low = middle + 1;
    }
    return low;
}

// rows, [slots, 4]: nodes, edges, first node and first edge of each graph; ends, [slots, 2]: nodes
// and edges of the graphs up to each, those that do not count left out.
extern "C" __global__ void __launch_bounds__(THREADS)
gather(const index_t* __restrict__ rows, const index_t* __restrict__ ends,
       const real* __restrict__ x, const int* __restrict__ row, const int* __restrict__ col,
       const real* __restrict__ weight, real* __restrict__ new_x, index_t* __restrict__ batch,
       index_t* __restrict__ source, real* __restrict__ new_weight, int slots, int nodes, int edges) {
    index_t* target = source + edges;
    const index_t used = ends[2 * slots - 2], used_edges = ends[2 * slots - 1], spare = nodes - used;
    const index_t numbers = (index_t)nodes * CHANNELS, all = numbers + edges;
    const index_t step = (index_t)gridDim.x * THREADS;
    for (index_t k = (index_t)blockIdx.x * THREADS + threadIdx.x; k < all; k += step) {
        if (k < numbers) {
            const index_t i = k / CHANNELS, channel = k % CHANNELS;
            const int graph = owner(ends, slots, i);
            const index_t from = rows[4 * graph + 2] + i - (graph ? ends[2 * graph - 2] : 0);
            new_x[k] = i < used ? x[from * CHANNELS + channel] : 0;
            if (channel == 0)
                batch[i] = i < used ? graph : slots - FILLERS + (i - used) * FILLERS / spare;
            continue;
        }
        const index_t e = k - numbers;
        if (e < used_edges) {
            const int graph = owner(ends + 1, slots, e);
            const index_t from = rows[4 * graph + 3] + e - (graph ? ends[2 * graph - 1] : 0);
            const index_t shift = (graph ? ends[2 * graph - 2] : 0) - rows[4 * graph + 2];
            source[e] = col[from] + shift, target[e] = row[from] + shift;
            if (weight) new_weight[e] = weight[from];
        } else {
            // From a filling node to itself, no node with very many of them, in the order of nodes.
            source[e] = target[e] = used + (e - used_edges) * spare / (edges - used_edges);
            if (weight) new_weight[e] = weight[0];
        }
    }
}
