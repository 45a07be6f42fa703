#include "model/traffic.h"

#include "model/gguf_file.h"

namespace quire::model {

Result<MatrixTraffic> matrix_traffic(const std::string& path) {
  const Result<GgufFile> file = GgufFile::open(path);
  if (!file.ok()) return file.status();
  MatrixTraffic traffic;
  const GgufTensor *embedding = nullptr, *head = nullptr;
  for (const GgufFile::Found& found : file->tensors()) {
    const GgufTensor& tensor = *found.tensor;
    if (tensor.name == "token_embd.weight") embedding = &tensor;
    if (tensor.name == "output.weight") head = &tensor;
    if (!tensor.name.starts_with("blk.") || tensor.ne[1] == 1) continue;  // norms, biases
    traffic.layer_bytes += tensor.bytes;
    traffic.layer_weights += static_cast<std::uint64_t>(tensor.ne[0] * tensor.ne[1]);
  }
  if (head == nullptr) head = embedding;  // tied
  if (head != nullptr) {
    traffic.head_bytes = head->bytes;
    traffic.head_weights = static_cast<std::uint64_t>(head->ne[0] * head->ne[1]);
  }
  return traffic;
}

}  // namespace quire::model
