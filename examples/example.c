/* The same through the C interface: 200 positions of random rows, a review, one more row. */
#include <stdio.h>
#include <stdlib.h>

#include "quire/quire.h"

static float q[200 * 8 * 64], k[200 * 2 * 64], v[200 * 2 * 64], out[200 * 8 * 64];

static void fill(float* row, size_t count) {
  for (size_t i = 0; i < count; ++i) row[i] = (float)rand() / (float)RAND_MAX - 0.5f;
}

static quire_code step(quire_cache* cache, quire_sequence sequence, uint32_t rows,
                       quire_error* error) {
  const quire_segment segment = {.sequence = sequence, .rows = rows};
  const quire_code code = quire_begin(cache, &segment, 1, error);
  for (uint32_t layer = 0; code == QUIRE_OK && layer < 2; ++layer) {
    fill(q, rows * 8 * 64), fill(k, rows * 2 * 64), fill(v, rows * 2 * 64);
    quire_append(cache, layer, k, v, 0, 1);
    quire_attend(cache, layer, q, out, 0, 1);
  }
  if (code == QUIRE_OK) quire_commit(cache);
  return code;
}

int main(void) {
  const quire_layer layer = {.kv_heads = 2, .query_heads = 8, .key_size = 64, .value_size = 64};
  const quire_layer layers[2] = {layer, layer};
  const quire_options options = {.layers = layers, .layer_count = 2, .budget_bytes = 4 << 20};
  const char* policy = "h2o:recent=16";
  quire_cache* cache = NULL;
  quire_sequence sequence = 0;
  quire_shrink_report report = {0};
  quire_error error = {0};
  if (quire_open(QUIRE_ABI, &options, &cache, &error) == QUIRE_OK &&
      quire_start(cache, policy, &sequence, &error) == QUIRE_OK &&
      step(cache, sequence, 200, &error) == QUIRE_OK &&
      quire_shrink(cache, sequence, policy, 64, &report, &error) == QUIRE_OK &&
      step(cache, sequence, 1, &error) == QUIRE_OK) {
    printf("dropped %llu of %llu entries, next output %f\n",
           (unsigned long long)report.entries_dropped, (unsigned long long)report.entries_before,
           out[8 * 64 - 1]);
  } else {
    fprintf(stderr, "%s\n", error.message);
  }
  quire_close(cache);
  return report.entries_dropped == 4 * (200 - 64) ? 0 : 1;
}
