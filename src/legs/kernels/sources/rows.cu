// Edges sorted by row, and where rows and graphs begin: one block does it all, in one launch.
//
// Edges mostly come sorted; then nothing is left but to mark the places where a row ends. Others are
// counted, placed in any order and put into their own again row by row: the same bits every time.
typedef long long index_t;
#define SHORT 32  // a row that one thread sorts

// out_k: how many entries are smaller than k.
__device__ void offsets(const index_t* sorted, int count, index_t* out, index_t size) {
    for (int i = threadIdx.x; i <= count; i += THREADS) {
        const index_t from = i ? sorted[i - 1] + 1 : 0, to = i < count && sorted[i] < size ? sorted[i] : size;
        for (index_t k = from; k <= to; ++k) out[k] = i;
    }
}

__device__ void exchange_at(index_t* a, index_t* b) {
    const index_t first = *a, second = *b;
    if (first > second) *a = second, *b = first;
}

// Batcher's merge exchange by all threads: comparisons that do not depend on what is found.
__device__ void sort_together(index_t* items, int count) {
    int top = 1;
    while (2 * top < count) top *= 2;
    for (int p = top; p; p /= 2) {
        int r = 0, d = p;
        for (int q = top;; q /= 2) {
            for (int i = threadIdx.x; i < count - d; i += THREADS)
                if ((i & p) == r) exchange_at(items + i, items + i + d);
            __syncthreads();
            if (q == p) break;
            d = q - p;
            r = p;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
rows(const index_t* edge_index, const real* weight, const index_t* batch, index_t* rowptr, index_t* col,
     real* weights, index_t* ptr, index_t* next, int nodes, int edges, int graphs) {
    const int me = threadIdx.x;
    const index_t* row = edge_index + edges;
    offsets(batch, BATCHED ? nodes : 0, ptr, graphs);
    if (!BATCHED && me == 0) ptr[1] = nodes;
    bool mixed = false;
    for (int e = me + 1; e < edges; e += THREADS) mixed |= row[e] < row[e - 1];
    if (!__syncthreads_or(mixed)) {
        offsets(row, edges, rowptr, nodes);
        for (int e = me; e < edges; e += THREADS) {
            col[e] = edge_index[e];
            if (WEIGHTED) weights[e] = weight[e];
        }
        return;
    }
    for (int i = me; i < nodes; i += THREADS) next[i] = 0;
    __syncthreads();
    for (int e = me; e < edges; e += THREADS) atomicAdd((unsigned long long*)next + row[e], 1ull);
    __syncthreads();
    // Each thread adds up some nodes, then knows what lies before them.
    __shared__ index_t sums[THREADS];
    const int each = (nodes + THREADS - 1) / THREADS;
    const int begin = min(nodes, me * each), end = min(nodes, begin + each);
    index_t before = 0;
    for (int i = begin; i < end; ++i) before += next[i];
    sums[me] = before;
    for (int k = 1; k < THREADS; k *= 2) {
        __syncthreads();
        const index_t more = me >= k ? sums[me - k] : 0;
        __syncthreads();
        sums[me] += more;
    }
    before = sums[me] - before;
    for (int i = begin; i < end; ++i) {
        const index_t here = next[i];
        rowptr[i] = next[i] = before;
        before += here;
    }
    if (me == 0) rowptr[nodes] = edges;
    __syncthreads();
    for (int e = me; e < edges; e += THREADS)
        col[atomicAdd((unsigned long long*)next + row[e], 1ull)] = e;
    __syncthreads();
    bool any_long = false;
    for (int i = me; i < nodes; i += THREADS) {
        const int first = int(rowptr[i]), count = int(rowptr[i + 1]) - first;
        any_long |= count > SHORT;
        for (int k = 1; k < count && count <= SHORT; ++k)
            for (int l = first + k; l > first && col[l] < col[l - 1]; --l) exchange_at(col + l - 1, col + l);
    }
    if (__syncthreads_or(any_long))
        for (int i = 0; i < nodes; ++i) {
            const int count = int(rowptr[i + 1] - rowptr[i]);
            if (count > SHORT) sort_together(col + rowptr[i], count);
        }
    __syncthreads();
    for (int k = me; k < edges; k += THREADS) {
        const index_t e = col[k];
        col[k] = edge_index[e];
        if (WEIGHTED) weights[k] = weight[e];
    }
}
