#pragma once

#include "kernels/stream.hpp"

namespace sluice::kernels {

/// Copies the elements of `from` into `to`, from whichever device to whichever.
///
/// On `on`'s device, in its queue: `from` may change when later work of that queue runs. Between
/// devices the bytes go through the processor: returns when they have left `from`'s device, after
/// all that its queue held.
/// Errors: std::invalid_argument for other shapes or types.
void copy(const tensor& from, tensor& to);

/// A copy on the stream's device.
tensor copied(stream& on, const tensor& from);
tensor copied(buffer_pool& pool, const tensor& from);

/// A copy of what its device is done with, as that of a transfer is: between devices nothing else
/// is waited for, whatever the queue of `from`'s device holds.
tensor transferred(buffer_pool& pool, const tensor& from);

/// All elements zero.
void set_zero(tensor& what);

/// The float64 scalar that a loss is. Waits for it.
double read_scalar(const tensor& of);

} // namespace sluice::kernels
