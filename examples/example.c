/* The same through the C interface: 200 positions of random rows, a review, one more row. */
#include <stdio.h>
#include <stdlib.h>

#include "quire/quire.h"

/* k, v and q of up to 200 rows, one after the other. */
static float kvq[200 * 12 * 64], out[200 * 8 * 64];
static quire_cache* cache = NULL;
static quire_sequence sequence = 0;
static quire_error error;

static quire_code step(uint32_t rows) {
  const quire_segment segment = {.sequence = sequence, .rows = rows};
  if (quire_begin(cache, &segment, 1, &error) != QUIRE_OK) return error.code;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (size_t i = 0; i < 200 * 12 * 64; ++i) kvq[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    quire_append(cache, layer, kvq, kvq + 200 * 2 * 64, 0, 1);
    quire_attend(cache, layer, kvq + 200 * 4 * 64, out, 0, 1);
  }
  return quire_commit(cache), QUIRE_OK;
}

int main(void) {
  const quire_layer layer = {.kv_heads = 2, .query_heads = 8, .key_size = 64, .value_size = 64};
  const quire_layer layers[2] = {layer, layer};
  const quire_options options = {.layers = layers, .layer_count = 2, .budget_bytes = 4 << 20};
  quire_shrink_report report = {0};
  if (quire_open(QUIRE_ABI, &options, &cache, &error) || /* QUIRE_OK is 0 */
      quire_start(cache, "h2o:recent=16", &sequence, &error) || step(200) ||
      quire_shrink(cache, sequence, "h2o:recent=16", 64, &report, &error) || step(1))
    return fprintf(stderr, "%s\n", error.message), 1;
  printf("dropped %d of %d entries\n", (int)report.entries_dropped, (int)report.entries_before);
  quire_close(cache);
  return report.entries_dropped == 4 * (200 - 64) ? 0 : 1;
}
