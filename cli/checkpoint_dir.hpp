#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::cli {

/// The checkpoints of a run, in a folder of their own: step-00000300.safetensors for the weights
/// after step 300. Their content is somebody else's affair (kernels/safetensors); that a file with
/// such a name is complete is atomic_file's.
///
/// What atomic_file left there when a process was killed is not taken for a checkpoint.
/// Two runs cannot write to one folder at once.
/// Errors: std::runtime_error that names the folder and what to do.
class checkpoint_dir {
public:
  struct entry {
    std::int64_t step;
    std::filesystem::path file;
  };

  /// `keep`: how many of the newest stay, at least one.
  explicit checkpoint_dir(std::filesystem::path folder, std::size_t keep = 3);

  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// Makes the folder, sees that one can write there and takes it for this run until the end of
  /// this object: before the first step, not at the first save. What killed runs left behind there
  /// is removed.
  void prepare();

  /// Where the checkpoint after the step goes.
  std::filesystem::path file_for(std::int64_t step) const;

  /// All checkpoints, the oldest first; none where there is no folder.
  std::vector<entry> list() const;

  /// Whether a file can be read as a checkpoint. Throws what is wrong with it when it cannot.
  using verify = std::function<void(const std::filesystem::path&)>;

  /// The newest checkpoint that passes; nothing when there is no checkpoint at all. A damaged one
  /// is logged and the one before it tried; what a killed run left behind is logged and ignored.
  /// Errors: when there are some and all are damaged.
  std::optional<entry> newest(const verify& check) const;

  /// Removes all but the newest `keep`. To be called after a save has succeeded. A file that cannot
  /// be removed is logged.
  void prune() const;

private:
  /// An open folder that no other process may take; the system lets go of it when a process ends,
  /// however it ends.
  class claim {
  public:
    explicit claim(const std::filesystem::path& folder);
    ~claim();
    claim(const claim&) = delete;
    claim& operator=(const claim&) = delete;

    /// Whether it is ours. Some network filesystems cannot tell: then no one's either.
    bool held() const noexcept { return held_; }

  private:
    int descriptor_ = -1;
    bool held_ = false;
  };

  void remove_leftovers() const;

  std::filesystem::path folder_;
  std::size_t keep_;
  std::unique_ptr<claim> claim_;
};

} // namespace sluice::cli
