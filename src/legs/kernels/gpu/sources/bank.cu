// A filter bank of the lazy walk on many graphs, and its gradients. With P = (I + D^-1 W) / 2 and
//   s_0 = x,  s_1 = (I - P) x,  s_(k+1) = P s_k,    out_b = sum_k f_kb s_k :
// differences come first, edge by edge, so that they are exactly zero for constants.
//
// A block serves one graph, one model and CH channels; an item is one channel of one node. In small
// graphs a thread keeps all bands of its items in registers, and only states go through shared
// memory; otherwise both are in global memory.
//
// Compiled at run time with constants:
//   real         float or double
//   B, K         bands, states (diffusion steps + 1)
//   CH           channels of a block
//   PER_CHANNEL  1 if every channel has filters of its own
//   WEIGHTED     1 if edges have weights
//   SCALED       1 if rows are divided by a scale before, and multiplied with it after
//   MODE         FORWARD; ADJOINT: from gradients of the bands to that of x; STATES: all s_k
//   THREADS      per block, a multiple of CH
//   ITEMS        of a thread, in registers; 0 for graphs of any size

#define OWN (PER_CHANNEL ? CH : 1)
#define FORWARD 0
#define ADJOINT 1
#define STATES 2
#define AT_ONCE 4

struct Graph {
    index_t first;  // node
    int nodes;
    const index_t *rowptr, *col;
    const real *weight, *degree;

    // P in, or (I - P) in, at one item, whose row has the entries from begin to below end. Four are
    // read at once: each waits for its column, and that for nothing.
    __device__ real step(const real* in, int i, int c, index_t begin, index_t end, bool difference) const {
        const real here = in[(index_t)i * CH + c];
        real sum = 0;
        for (index_t e = begin; e < end; e += AT_ONCE) {
            real values[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
                const bool there = e + k < end;
                const real value = there ? in[(col[e + k] - first) * CH + c] : here * difference;
                values[k] = difference ? here - value : value;
                if (WEIGHTED && there) values[k] *= weight[e + k];
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) sum += values[k];
        }
        sum /= degree[i];
        return (difference ? sum : here + sum) / 2;
    }
};

// Calls f(register, item) for all items of this thread.
template <class F>
__device__ void each_item(int items, F f) {
    const int rounds = ITEMS ? ITEMS : (items + THREADS - 1) / THREADS;
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
        const int item = r * THREADS + threadIdx.x;
        if (item < items) f(ITEMS ? r : 0, item);
    }
}

// x: [models or 1, nodes, channels], or [models or 1, nodes, B, channels] for the adjoint; filters:
// [models, K, B, channels or 1]; out: [models, nodes, B, channels], [models, nodes, channels] or
// [models, K, nodes, channels]. Blocks pass over graphs outside (above, most].
extern "C" __global__ void __launch_bounds__(THREADS)
bank(const real* x, const index_t* rowptr, const index_t* col, const real* weight,
     const index_t* ptr, const real* degree, const real* scale, const real* filters, real* scratch,
     real* out, int models, int x_models, int graphs, int nodes, int channels, int above, int most) {
    extern __shared__ char raw[];
    const int chunks = (channels + CH - 1) / CH, chunk = blockIdx.x % chunks;
    const int number = blockIdx.x / chunks % graphs, model = blockIdx.x / chunks / graphs;
    const index_t first = ptr[number];
    const int size = int(ptr[number + 1] - first), items = size * CH;
    if (size <= above || size > most) return;
    const Graph g = {first, size, rowptr + first, col, weight, degree + first};
    // A thread has one channel in all its items.
    const int c = threadIdx.x % CH, channel = chunk * CH + c;
    const bool counts = channel < channels;
    const index_t row = (index_t)model * nodes + first, x_row = x_models > 1 ? row : first;

    real* bank = (real*)raw;  // [K][B][OWN]
    for (int k = threadIdx.x; k < K * B * OWN && MODE != STATES; k += THREADS) {
        const int there = PER_CHANNEL ? chunk * CH + k % CH : 0, width = PER_CHANNEL ? channels : 1;
        const index_t place = ((index_t)model * K * B + k / OWN) * width + there;
        bank[k] = there < width ? filters[place] : real(0);
    }
    const real* mine = bank + (PER_CHANNEL ? c : 0);
    const index_t before = ((index_t)model * chunks + chunk) * nodes + first;
    real* states = ITEMS ? bank + K * B * OWN : scratch + 2 * CH * before;
    real* next = states + (index_t)size * CH;
    real bands[ITEMS ? ITEMS : 1][B];
    index_t begin[ITEMS ? ITEMS : 1], end[ITEMS ? ITEMS : 1];  // of the rows of a thread's items
    const auto read_row = [&](int r, int item) {
        begin[r] = g.rowptr[item / CH];
        end[r] = g.rowptr[item / CH + 1];
    };
    if (ITEMS) each_item(items, read_row);
    __syncthreads();

    const auto swap = [&] { real* old = states; states = next; next = old; };
#if MODE == ADJOINT
    const auto read_bands = [&](int r, int item) {
        const int i = item / CH;
        const real factor = SCALED ? 1 / scale[first + i] : real(1);
#pragma unroll
        for (int b = 0; b < B; ++b)
            bands[r][b] = counts ? factor * x[((x_row + i) * B + b) * channels + channel] : real(0);
    };
    if (ITEMS) each_item(items, read_bands);
    for (int k = K - 1; k >= 0; --k) {
        each_item(items, [&](int r, int item) {
            if (!ITEMS) read_bands(r, item), read_row(r, item);
            real value = k < K - 1 ? g.step(states, item / CH, c, begin[r], end[r], k == 0) : real(0);
#pragma unroll
            for (int b = 0; b < B; ++b) value += mine[(k * B + b) * OWN] * bands[r][b];
            if (k) next[item] = value;
            else if (counts) {
                if (SCALED) value *= scale[first + item / CH];
                out[(row + item / CH) * channels + channel] = value;
            }
        });
        swap();
        __syncthreads();
    }
#else
    const auto place = [&](int item, int b) { return ((row + item / CH) * B + b) * channels + channel; };
    const auto factor = [&](int item) { return SCALED ? scale[first + item / CH] : real(1); };
    for (int k = 0; k < K; ++k) {
        each_item(items, [&](int r, int item) {
            real value;
            if (!ITEMS) read_row(r, item);
            if (k) value = g.step(states, item / CH, c, begin[r], end[r], k == 1);
            else {
                value = counts ? x[(x_row + item / CH) * channels + channel] : real(0);
                if (SCALED) value /= factor(item);
            }
            next[item] = value;
#if MODE == STATES
            const index_t i = ((index_t)model * K + k) * nodes + first + item / CH;
            if (counts) out[i * channels + channel] = factor(item) * value;
#else
#pragma unroll
            for (int b = 0; b < B; ++b) {
                const real more = mine[(k * B + b) * OWN] * value;
                if (ITEMS) bands[r][b] = k ? bands[r][b] + more : more;
                else if (counts) out[place(item, b)] = k ? out[place(item, b)] + more : more;
            }
#endif
        });
        swap();
        __syncthreads();
    }
    if (MODE == FORWARD)
        each_item(items, [&](int r, int item) {
            for (int b = 0; b < B && counts; ++b)
                out[place(item, b)] = factor(item) * (ITEMS ? bands[r][b] : out[place(item, b)]);
        });
#endif
}
