#include "tests/emulation/fiber.hpp"

#include <cstdint>
#include <new>

#include <pthread.h>
#include <sys/mman.h>

#ifndef __x86_64__
#error "the emulation switches stacks in x86-64 assembly"
#endif

// Present only in a program that is linked with AddressSanitizer, or with ThreadSanitizer.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** save, const void* bottom,
                                                          std::size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake, const void** bottom,
                                                           std::size_t* bytes);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void sluice_emulation_switch(void** from, void* to);
}

// Saves what a callee must keep, changes the stack, restores. 60 ns, against 400 of swapcontext(),
// which asks the kernel for the signal mask.
asm(R"(
.text
.globl sluice_emulation_switch
.type sluice_emulation_switch,@function
sluice_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sluice_emulation_switch,.-sluice_emulation_switch
)");

namespace sluice::emulation {

namespace {

constexpr std::size_t stack_bytes = 128 << 10;
constexpr std::size_t guard_bytes = 4096;

fiber* starting = nullptr; // the one that begin() is about to run

} // namespace

fiber::fiber(void (*entry)()) : entry_(entry) {
  auto* mapped = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc();
  mprotect(mapped, guard_bytes, PROT_NONE);
  stack_ = static_cast<char*>(mapped) + guard_bytes;
  // The tops are staggered: at equal page offsets all stacks would share a few cache sets.
  static std::size_t count = 0;
  auto** top = reinterpret_cast<void**>(stack_ + stack_bytes - ++count % 61 * 320);
  *--top = nullptr; // begin() never returns
  *--top = reinterpret_cast<void*>(&fiber::begin);
  for (int saved = 0; saved < 6; ++saved)
    *--top = nullptr;
  stack_pointer_ = top;
  if (__tsan_create_fiber != nullptr)
    tsan_fiber_ = __tsan_create_fiber(0);
}

fiber::~fiber() {
  if (stack_ != nullptr && tsan_fiber_ != nullptr)
    __tsan_destroy_fiber(tsan_fiber_);
  if (stack_ != nullptr)
    munmap(stack_ - guard_bytes, guard_bytes + stack_bytes);
}

void fiber::begin() {
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
  starting->entry_();
  __builtin_unreachable();
}

void fiber::resume_from(fiber& from) {
  // AddressSanitizer is told where the stack lies that comes next; of the thread's own stack it
  // learns that when the first fiber begins.
  static thread_local const void* thread_bottom = nullptr;
  static thread_local std::size_t thread_bytes = 0;
  if (__sanitizer_start_switch_fiber != nullptr) {
    if (thread_bottom == nullptr) {
      pthread_attr_t attributes;
      void* bottom = nullptr;
      pthread_getattr_np(pthread_self(), &attributes);
      pthread_attr_getstack(&attributes, &bottom, &thread_bytes);
      pthread_attr_destroy(&attributes);
      thread_bottom = bottom;
    }
    __sanitizer_start_switch_fiber(&from.fake_stack_, stack_ ? stack_ : thread_bottom,
                                   stack_ ? stack_bytes : thread_bytes);
  }
  if (__tsan_switch_to_fiber != nullptr) {
    if (from.tsan_fiber_ == nullptr) // the thread itself
      from.tsan_fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_fiber_, 0); // what a lane did, the next one on the thread sees
  }
  starting = this;
  sluice_emulation_switch(&from.stack_pointer_, stack_pointer_);
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
}

} // namespace sluice::emulation
