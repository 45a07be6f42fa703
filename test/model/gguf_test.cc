// Goal: every way in which a file is not a model this build runs ends in one line that names the
// file and the tensor, key or offset, with the code that says what can be done about it.
// Method: a tiny valid model, broken in one way at a time.

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "model/gguf_file.h"
#include "model/running.h"
#include "support/tiny_model.h"

namespace quire {
namespace {

using test::TinyModel;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class GgufTest : public testing::Test {
 protected:
  // What loading the file says.
  Status load() const {
    auto model = model::Model::load({.path = file_.path(), .threads = 1});
    return model.ok() ? Status() : model.status();
  }
  Status load(const TinyModel& tiny) const {
    EXPECT_TRUE(test::write_tiny_model(tiny, file_.path()));
    return load();
  }
  Status load_edited(std::function<void(gguf_context*)> edit) const {
    return load({.edit = std::move(edit)});
  }
  void expect(const Status& status, Code code, const std::string& part) const {
    EXPECT_EQ(name_of(status.code()), std::string(name_of(code))) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(file_.path()), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  }

  test::TempFile file_{"gguf-test.gguf"};
};

TEST_F(GgufTest, AValidFileLoads) {
  EXPECT_TRUE(load({}).ok());
  EXPECT_TRUE(load({.architecture = "qwen2"}).ok());
}

TEST_F(GgufTest, FilesThatAreNoModel) {
  const Status missing = model::Model::load({.path = file_.path()}).status();
  expect(missing, Code::kNotFound, "no such file");
  write_bytes(file_.path(), "");
  expect(load(), Code::kCorrupt, "empty");
  write_bytes(file_.path(), "PK\3\4 something else entirely");
  expect(load(), Code::kCorrupt, "not a GGUF file");
  write_bytes(file_.path(), std::string("GGUF\3\0\0\0", 8));
  expect(load(), Code::kCorrupt, "truncated inside the header");
  const Status folder = model::Model::load({.path = "/"}).status();
  EXPECT_EQ(folder.code(), Code::kIo) << folder.message();
}

TEST_F(GgufTest, HeadersThatPromiseTooMuch) {
  ASSERT_TRUE(load({}).ok());
  const std::string good = bytes_of(file_.path());
  const auto with = [&](std::size_t offset, std::uint64_t value, std::size_t size) {
    std::string bytes = good;
    std::memcpy(bytes.data() + offset, &value, size);
    write_bytes(file_.path(), bytes);
    return load();
  };
  expect(with(4, 1, 4), Code::kUnsupported, "version 1");
  expect(with(4, 0x03000000, 4), Code::kUnsupported, "version");
  expect(with(8, ~0ull, 8), Code::kCorrupt, "tensors");
  expect(with(16, 1ull << 40, 8), Code::kCorrupt, "keys");
  expect(with(24, ~0ull, 8), Code::kCorrupt, "offset 24");  // the first key's length
}

TEST_F(GgufTest, TruncatedAnywhere) {
  ASSERT_TRUE(load({}).ok());
  const std::string good = bytes_of(file_.path());
  for (std::size_t size = 5; size < good.size(); size += 1 + size / 7) {
    write_bytes(file_.path(), std::string_view(good).substr(0, size));
    const Status status = load();
    EXPECT_EQ(status.code(), Code::kCorrupt) << size << ": " << status.message();
  }
  write_bytes(file_.path(), std::string_view(good).substr(0, good.size() - 64));
  expect(load(), Code::kCorrupt, "truncated: tensor");
}

TEST_F(GgufTest, ArchitecturesAndShapesThisBuildDoesNotRun) {
  expect(load_edited(
             [](gguf_context* file) { gguf_set_val_str(file, "general.architecture", "mamba"); }),
         Code::kUnsupported, "'mamba'");
  expect(load_edited([](gguf_context* file) { gguf_remove_key(file, "general.architecture"); }),
         Code::kCorrupt, "general.architecture");
  expect(load_edited([](gguf_context* file) { gguf_set_val_u32(file, "llama.expert_count", 8); }),
         Code::kUnsupported, "llama.expert_count");
  expect(load_edited([](gguf_context* file) {
           gguf_set_val_str(file, "llama.rope.scaling.type", "longrope");
         }),
         Code::kUnsupported, "'longrope'");
  expect(load({.heads = 4, .kv_heads = 2, .head_size = 48}), Code::kUnsupported, "heads of 48");
  expect(load_edited([](gguf_context* file) {
           gguf_set_val_u32(file, "llama.attention.head_count", 17);
           gguf_set_val_u32(file, "llama.attention.head_count_kv", 1);
           gguf_set_val_u32(file, "llama.attention.key_length", 64);
           gguf_set_val_u32(file, "llama.attention.value_length", 64);
         }),
         Code::kUnsupported, "groups of 1 to 16");
  expect(load({.heads = 3, .kv_heads = 2}), Code::kUnsupported, "attention.head_count");
  expect(load_edited(
             [](gguf_context* file) { gguf_set_val_u32(file, "llama.rope.dimension_count", 32); }),
         Code::kUnsupported, "rope.dimension_count");
}

TEST_F(GgufTest, KeysThatAreMissingOrImpossible) {
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.context_length",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"}) {
    expect(load_edited([&](gguf_context* file) { gguf_remove_key(file, key); }), Code::kCorrupt,
           key);
    expect(load_edited([&](gguf_context* file) { gguf_set_val_str(file, key, "many"); }),
           Code::kCorrupt, key);
  }
  for (const std::uint32_t count : {0u, 1000u, ~0u}) {
    const Status status = load_edited(
        [&](gguf_context* file) { gguf_set_val_u32(file, "llama.block_count", count); });
    expect(status, Code::kUnsupported, "llama.block_count");
  }
  expect(
      load_edited([](gguf_context* file) { gguf_set_val_f32(file, "llama.rope.freq_base", -1); }),
      Code::kCorrupt, "rope.freq_base");
  expect(load_edited([](gguf_context* file) { gguf_set_val_u32(file, "general.alignment", 4); }),
         Code::kUnsupported, "general.alignment");
}

TEST_F(GgufTest, TensorsThatAreMissingOrOfTheWrongShape) {
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight",
                           "blk.1.attn_k.weight", "blk.1.ffn_down.weight"}) {
    const Status status =
        load({.leave_out = [&](const std::string& tensor) { return tensor == name; }});
    expect(status, Code::kCorrupt, name);
  }
  expect(load_edited(
             [](gguf_context* file) { gguf_set_val_u32(file, "llama.feed_forward_length", 128); }),
         Code::kCorrupt, "blk.0.ffn_gate.weight");
  expect(load_edited([](gguf_context* file) { gguf_set_val_u32(file, "llama.block_count", 1); }),
         Code::kUnsupported, "'blk.1.");
  expect(load_edited([](gguf_context* file) { gguf_set_val_u32(file, "llama.block_count", 3); }),
         Code::kCorrupt, "'blk.2.attn_norm.weight' is missing");
  // A layer norm as q4_0 is nothing the graph multiplies by.
  expect(load_edited([](gguf_context* file) {
           gguf_set_tensor_type(file, "blk.0.attn_norm.weight", GGML_TYPE_F16);
         }),
         Code::kUnsupported, "blk.0.attn_norm.weight");
}

TEST_F(GgufTest, ArchitecturesNeedTheirOwnTensorsAndKeys) {
  const auto without = [](const char* name) {
    return [name](const std::string& tensor) { return tensor == name; };
  };
  expect(load({.architecture = "qwen3", .leave_out = without("blk.1.attn_q_norm.weight")}),
         Code::kCorrupt, "blk.1.attn_q_norm.weight");
  expect(load({.architecture = "qwen3",
               .edit =
                   [](gguf_context* file) {
                     gguf_set_val_str(file, "general.architecture", "qwen2");
                     for (const char* key : {"block_count", "context_length", "embedding_length",
                                             "feed_forward_length", "attention.head_count"}) {
                       const std::string from = std::string("qwen3.") + key;
                       gguf_set_val_u32(file, (std::string("qwen2.") + key).c_str(),
                                        gguf_get_val_u32(file, gguf_find_key(file, from.c_str())));
                     }
                     gguf_set_val_u32(file, "qwen2.attention.head_count_kv", 2);
                     gguf_set_val_f32(file, "qwen2.attention.layer_norm_rms_epsilon", 1e-5f);
                   }}),
         Code::kUnsupported, "blk.0.attn_k_norm.weight");

  const auto gemma3 = [&](std::function<void(gguf_context*)> edit) {
    return load({.architecture = "gemma3", .window = 32, .edit = std::move(edit)});
  };
  EXPECT_TRUE(gemma3({}).ok());
  expect(load({.architecture = "gemma3", .leave_out = without("blk.0.post_ffw_norm.weight")}),
         Code::kCorrupt, "blk.0.post_ffw_norm.weight");
  expect(gemma3([](gguf_context* file) {
           const bool three[] = {true, true, false};
           gguf_set_arr_data(file, "gemma3.attention.sliding_window_pattern", GGUF_TYPE_BOOL, three,
                             3);
         }),
         Code::kCorrupt, "gemma3.attention.sliding_window_pattern");
  expect(gemma3([](gguf_context* file) {
           gguf_set_val_u32(file, "gemma3.attention.sliding_window_pattern", 0);
         }),
         Code::kUnsupported, "gemma3.attention.sliding_window_pattern");
  expect(gemma3([](gguf_context* file) {
           gguf_set_val_u32(file, "gemma3.attention.sliding_window", ~0u);
         }),
         Code::kUnsupported, "gemma3.attention.sliding_window");
  expect(gemma3([](gguf_context* file) { gguf_set_val_f32(file, "gemma3.rope.freq_base_swa", 0); }),
         Code::kCorrupt, "gemma3.rope.freq_base_swa");
}

TEST_F(GgufTest, TokenizersThatAreMissingOrBroken) {
  expect(load_edited([](gguf_context* file) { gguf_remove_key(file, "tokenizer.ggml.model"); }),
         Code::kCorrupt, "no tokenizer");
  expect(load_edited([](gguf_context* file) { gguf_remove_key(file, "tokenizer.ggml.tokens"); }),
         Code::kCorrupt, "tokenizer.ggml.tokens");
  expect(load_edited(
             [](gguf_context* file) { gguf_set_val_str(file, "tokenizer.ggml.model", "bert"); }),
         Code::kUnsupported, "'bert'");
  expect(load_edited([](gguf_context* file) {
           const std::int32_t one = 1;
           gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, &one, 1);
         }),
         Code::kCorrupt, "tokenizer.ggml.token_type");
  expect(load_edited([](gguf_context* file) {
           const char* words[] = {"a", "b", "a"};
           gguf_set_arr_str(file, "tokenizer.ggml.tokens", words, 3);
         }),
         Code::kCorrupt, "token 2 twice");
  expect(load_edited([](gguf_context* file) {
           const char* words[] = {"a", "b", "c"};
           gguf_set_arr_str(file, "tokenizer.ggml.tokens", words, 3);
         }),
         Code::kCorrupt, "byte token");
  expect(load({.architecture = "qwen2",
               .edit =
                   [](gguf_context* file) {
                     gguf_set_val_str(file, "tokenizer.ggml.pre", "no such thing");
                   }}),
         Code::kCorrupt, "no such thing");
  expect(load({.architecture = "qwen2",
               .edit = [](gguf_context* file) { gguf_remove_key(file, "tokenizer.ggml.merges"); }}),
         Code::kCorrupt, "tokenizer.ggml.merges");
}

TEST_F(GgufTest, SplitFilesNeedEveryPart) {
  expect(load_edited([](gguf_context* file) { gguf_set_val_u16(file, "split.count", 2); }),
         Code::kInvalidArgument, "-00001-of-00002.gguf");
  expect(load_edited([](gguf_context* file) {
           gguf_set_val_u16(file, "split.count", 2);
           gguf_set_val_u16(file, "split.no", 1);
         }),
         Code::kInvalidArgument, "name the first part");

  const test::TempFile first("split-00001-of-00002.gguf"), second("split-00002-of-00002.gguf");
  const auto is_late = [](const std::string& tensor) { return tensor.starts_with("blk.1."); };
  const auto part = [](std::uint16_t number) {
    return [number](gguf_context* file) {
      gguf_set_val_u16(file, "split.count", 2);
      gguf_set_val_u16(file, "split.no", number);
      gguf_set_val_i32(file, "split.tensors.count", 21);
    };
  };
  ASSERT_TRUE(test::write_tiny_model({.edit = part(0), .leave_out = is_late}, first.path()));
  const auto load_split = [&] { return model::Model::load({.path = first.path(), .threads = 1}); };
  const Status lone = load_split().status();
  EXPECT_EQ(lone.code(), Code::kNotFound);
  EXPECT_NE(lone.message().find("part 2 of 2"), std::string::npos) << lone.message();
  const auto is_early = [&](const std::string& tensor) { return !is_late(tensor); };
  ASSERT_TRUE(test::write_tiny_model({.edit = part(1), .leave_out = is_early}, second.path()));
  auto whole = load_split();
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ((*whole)->info().layers, 2u);
  EXPECT_EQ((*whole)->info().file_bytes,
            std::filesystem::file_size(first.path()) + std::filesystem::file_size(second.path()));
  ASSERT_TRUE(test::write_tiny_model({.edit = part(0), .leave_out = is_early}, second.path()));
  EXPECT_EQ(load_split().status().code(), Code::kCorrupt);
}

TEST_F(GgufTest, AFileChangedWhileLoadingIsNoticed) {
  ASSERT_TRUE(test::write_tiny_model({}, file_.path()));
  const std::string good = bytes_of(file_.path());
  const auto load_with = [&](const std::function<void()>& meddle) {
    const auto progress = [&](float) {
      meddle();
      return true;
    };
    return model::Model::load({.path = file_.path(), .threads = 1, .progress = progress}).status();
  };
  expect(load_with([&] {
           std::filesystem::remove(file_.path());
           write_bytes(file_.path(), good);
         }),
         Code::kIo, "replaced");
  expect(load_with([&] { std::ofstream(file_.path(), std::ios::app) << "more"; }), Code::kIo,
         "changed");
}

TEST_F(GgufTest, LoadingCanBeCancelled) {
  ASSERT_TRUE(test::write_tiny_model({.type = GGML_TYPE_Q4_0}, file_.path()));
  const auto model =
      model::Model::load({.path = file_.path(), .progress = [](float) { return false; }});
  expect(model.status(), Code::kCancelled, "cancelled");
}

}  // namespace
}  // namespace quire
