// The filters of learned scales or, with grad, the gradient of what is learned: one block per model.
//
// rows = softmax(theta); sums of a row up to each time; those of a time sorted, largest first;
// differences of neighbours. Compiled with J scales, M steps and C channels that share the filters.
extern "C" __global__ void __launch_bounds__(THREADS)
filters(const real* theta, const real* grad, real* filters, real* rows, int* order) {
    const int me = threadIdx.x, model = blockIdx.x;
    theta += model * J * M, filters += model * C * J * M, rows += model * J * M, order += model * J * M;
    __shared__ real sums[J * M];
    for (int j = me; j < J; j += THREADS) {
        const real* logits = theta + j * M;
        real *row = rows + j * M, top = logits[0], all = 0, sum = 0;
        for (int t = 1; t < M; ++t) top = logits[t] > top ? logits[t] : top;
        for (int t = 0; t < M; ++t) all += row[t] = exp(logits[t] - top);
        for (int t = 0; t < M; ++t) {
            sums[j * M + t] = sum;
            sum += row[t] /= all;
        }
    }
    __syncthreads();
    for (int t = me; t < M; t += THREADS) {
        // Insertion: the rows are nearly in order, and those that tie stay in theirs.
        for (int j = 0; j < J; ++j) {
            const real value = sums[j * M + t];
            int k = j;
            for (; k && sums[(k - 1) * M + t] < value; --k) {
                sums[k * M + t] = sums[(k - 1) * M + t];
                order[k * M + t] = order[(k - 1) * M + t];
            }
            sums[k * M + t] = value;
            order[k * M + t] = j;
        }
        for (int j = 0; j < J && !grad; ++j) {
            const real value = (j ? sums[(j - 1) * M + t] : real(1)) - sums[j * M + t];
            for (int c = 0; c < C; ++c) filters[(c * J + j) * M + t] = value;
        }
    }
    if (!grad) return;
    grad += model * C * J * M;
    for (int t = me; t < M; t += THREADS) {  // gradients of the sums
        real above = 0;
        for (int j = J - 1; j >= 0; --j) {
            real here = 0;
            for (int c = 0; c < C; ++c) here += grad[(c * J + j) * M + t];
            sums[order[j * M + t] * M + t] = above - here;
            above = here;
        }
    }
    __syncthreads();
    for (int j = me; j < J; j += THREADS) {  // of the softmax, then of the logits
        real *own = sums + j * M, *row = rows + j * M, later = 0, mean = 0;
        for (int t = M - 1; t >= 0; --t) {  // what is chosen for a time counts in all later sums
            const real change = later;
            later += own[t];
            own[t] = change;
            mean += change * row[t];
        }
        for (int t = 0; t < M; ++t) row[t] *= own[t] - mean;
    }
}
