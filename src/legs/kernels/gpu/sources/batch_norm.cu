// Batch norm for a stack of models, each with the statistics of its own rows; see
// legs.nn.GraphBatchNorm. A block has a model, 32 of its channels and a part of the rows, which warps
// share. Many rows take two launches: PHASE 0 writes the sums of every part, PHASE 1 combines them;
// with one part PHASE 2 does both. Constants: real, THREADS, PHASE, SAME (whether all models share
// the features), RELU (whether ReLU follows).

struct Column {
    int model, part, parts, channel, warp, rows, channels;
    bool inside;
    const real* mask;

    __device__ Column(const real* masks, int rows, int channels, int parts)
        : parts(parts), rows(rows), channels(channels) {
        const int tiles = (channels + 31) / 32;
        model = blockIdx.x / tiles / parts, part = blockIdx.x / tiles % parts;
        warp = threadIdx.x / 32, channel = blockIdx.x % tiles * 32 + threadIdx.x % 32;
        inside = channel < channels;
        if (!inside) channel = 0;  // computed, but not written
        mask = masks + (index_t)model * rows;
    }
    // Calls f for the rows of this thread.
    template <class F>
    __device__ __forceinline__ void each(F f) const {
        for (int i = part * WARPS + warp; i < rows; i += parts * WARPS) f(i);
    }
    // The sum over the rows of this block, in a fixed order, for all threads of a channel.
    template <class F>
    __device__ __forceinline__ real total(F f) const {
        real sum = 0;
        each([&](int i) { sum += f(i); });
        return sum_over_warps(sum);
    }
    // Where the channel of a row is, and number k of "of" per part, or per model, and channel.
    __device__ index_t at(int i, int first) const { return ((index_t)first * rows + i) * channels + channel; }
    __device__ index_t sum(int p, int k, int of) const {
        return (((index_t)model * parts + p) * of + k) * channels + channel;
    }
    __device__ index_t of(int k, int of) const { return ((index_t)model * of + k) * channels + channel; }
};

// Also updates the running averages; stats are the mean, one over the deviation, and the number of
// rows under the mask. sums: [models, parts, 3, channels].
extern "C" __global__ void __launch_bounds__(THREADS)
norm_forward(const real* __restrict__ x, const real* __restrict__ mask, const real* __restrict__ weight,
             const real* __restrict__ bias, real* __restrict__ running_mean,
             real* __restrict__ running_var, real* __restrict__ out, real* __restrict__ stats,
             real* __restrict__ sums, int rows, int channels, int parts, double eps, double momentum) {
    const Column column(mask, rows, channels, parts);
    const auto value = [&](int i) { return x[column.at(i, SAME ? 0 : column.model)]; };
    real count = 0, mean = 0, squares = 0;  // squares: of differences from the mean
    if (PHASE != 1) {
        count = column.total([&](int i) { return column.mask[i]; });
        mean = column.total([&](int i) { return column.mask[i] * value(i); }) / (count > 0 ? count : 1);
        squares = column.total([&](int i) { return column.mask[i] * (value(i) - mean) * (value(i) - mean); });
    }
    if (!column.inside) return;
    if (PHASE == 0) {
        if (column.warp == 0) {
            sums[column.sum(column.part, 0, 3)] = count;
            sums[column.sum(column.part, 1, 3)] = mean;
            sums[column.sum(column.part, 2, 3)] = squares;
        }
        return;
    }
    if (PHASE == 1)
        for (int p = 0; p < parts; ++p) {
            const real more = sums[column.sum(p, 0, 3)], apart = sums[column.sum(p, 1, 3)] - mean;
            const real both = count + more > 0 ? count + more : real(1);
            mean += apart * more / both;
            squares += sums[column.sum(p, 2, 3)] + apart * apart * count * more / both;
            count += more;
        }
    const bool first = column.warp == 0 && column.part == 0;
    const index_t place = column.of(0, 1);
    real variance = squares / (count > 1 ? count : real(1));
    if (!(count > 1)) mean = running_mean[place], variance = running_var[place];
    const real root = 1 / sqrt(variance + real(eps)), scale = weight[place] * root;
    if (first) {
        stats[column.of(0, 3)] = mean, stats[column.of(1, 3)] = root, stats[column.of(2, 3)] = count;
        if (count > 1) {
            running_mean[place] += real(momentum) * (mean - running_mean[place]);
            running_var[place] += real(momentum) * (squares / (count - 1) - running_var[place]);
        }
    }
    column.each([&](int i) {
        const real y = (value(i) - mean) * scale + bias[place];
        out[column.at(i, column.model)] = RELU && y < 0 ? real(0) : y;  // NaN stays
    });
}

// Gradients of weight and bias, [models, 2, channels], and of the features unless change is null.
// sums: [models, parts, 2, channels].
extern "C" __global__ void __launch_bounds__(THREADS)
norm_backward(const real* __restrict__ x, const real* __restrict__ mask, const real* __restrict__ weight,
              const real* __restrict__ bias, const real* __restrict__ stats, const real* __restrict__ grad,
              real* __restrict__ change, real* __restrict__ terms, real* __restrict__ sums, int rows,
              int channels, int parts) {
    const Column column(mask, rows, channels, parts);
    const real mean = stats[column.of(0, 3)], root = stats[column.of(1, 3)], count = stats[column.of(2, 3)];
    const real w = weight[column.of(0, 1)], b = bias[column.of(0, 1)];
    const auto standard = [&](int i) { return (x[column.at(i, SAME ? 0 : column.model)] - mean) * root; };
    const auto passed = [&](int i) {
        return RELU && standard(i) * w + b < 0 ? real(0) : grad[column.at(i, column.model)];
    };
    real slope = 0, sum = 0;
    if (PHASE != 1) {
        slope = column.total([&](int i) { return passed(i) * standard(i); });
        sum = column.total(passed);
    }
    if (!column.inside) return;
    if (PHASE == 0) {
        if (column.warp == 0) {
            sums[column.sum(column.part, 0, 2)] = slope;
            sums[column.sum(column.part, 1, 2)] = sum;
        }
        return;
    }
    if (PHASE == 1)
        for (int p = 0; p < parts; ++p) slope += sums[column.sum(p, 0, 2)], sum += sums[column.sum(p, 1, 2)];
    if (column.warp == 0 && column.part == 0) terms[column.of(0, 2)] = slope, terms[column.of(1, 2)] = sum;
    if (!change) return;
    column.each([&](int i) {
        // Rows of a model that has too few of them are in no statistics.
        const real share = count > 1 ? column.mask[i] / count : real(0);
        const real own = passed(i) - share * (sum + standard(i) * slope);
        change[column.at(i, column.model)] = w * root * own;
    });
}
