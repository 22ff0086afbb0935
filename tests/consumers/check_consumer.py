#!/usr/bin/env python3
"""Uses Sluice as other projects do, and runs what they build.

    check_consumer.py WAY --source CHECKOUT --build FOLDER --work FOLDER [--cxx g++]
                      [--torch FOLDER]

Ways: install, find_package, components, torch, pkg_config, package, shared_caf, shared,
add_subdirectory, fetch_content. The ways find_package to pkg_config take what `install` and
`package` have put into the work folder, `shared` what `shared_caf` has. --torch: the LibTorch that
Sluice was built with.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "torch"))
from find_torch import fake_torch  # pylint: disable=wrong-import-position


def run(*command, fails=False):
    """Runs a command and returns all that it says; fails: whether it is to fail."""
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if (done.returncode != 0) != fails:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n-> exit code {done.returncode}")
    return done.stdout


def expect(what, text):
    if not re.search(what, text):
        sys.exit(f"expected '{what}' in:\n{text}")


def empty(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def check_headers(include):
    """Every include of an installed header is one that was installed too, and none is quoted."""
    count = 0
    for header in (include / "sluice").rglob("*.hpp"):
        for bracket, target in re.findall(r'#\s*include\s*([<"])([^>"]+)', header.read_text()):
            ours = target.startswith("sluice/")
            if bracket == '"' or (ours and not (include / target).is_file()):
                sys.exit(f"{header} includes {target}, which is not installed so")
            count += 1
    expect("[1-9]", str(count))


def install(args):
    prefix = empty(args.work / "prefix")
    run("cmake", "--install", args.build, "--prefix", prefix)
    check_headers(prefix / "include")
    # Not bound to where it was built or first put: the consumers use it from elsewhere.
    moved = args.work / "moved"
    shutil.rmtree(moved, ignore_errors=True)
    prefix.rename(moved)
    for file in (moved / "lib").rglob("*"):
        if file.suffix in (".cmake", ".pc") and str(args.source) in file.read_text():
            sys.exit(f"{file} names a folder of the checkout")


def package(args):
    folder = empty(args.work / "package")
    run("cpack", "-G", "DEB", "--config", args.build / "CPackConfig.cmake", "-B", folder)
    deb, = folder.glob("sluice_*.deb")
    expect(r"Package: sluice\n", run("dpkg-deb", "--info", deb))
    expect(r"Depends: .*libc6", run("dpkg-deb", "--info", deb))
    run("dpkg-deb", "-x", deb, folder / "root")
    expect(r"\d+\.\d+\.\d+", run(folder / "root/usr/bin/sluice", "--version"))
    check_headers(folder / "root/usr/include")


def build(args, project, *options):
    folder = empty(args.work / project)
    said = run("cmake", "-S", HERE / project, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *options)
    said += run("cmake", "--build", folder)
    if "warning:" in said:
        sys.exit("a consumer should see no warnings\n" + said)
    return folder


def find_package(args):
    folder = build(args, "find_package", f"-DCMAKE_PREFIX_PATH={args.work / 'moved'}")
    expect("loss .* -> ", run(folder / "consumer"))
    symbols = run("nm", "-D", "-C", "--defined-only", folder / "libplugin.so")
    expect("sluice_plugin_ranks", symbols)
    # A type that a shared Sluice throws has one name on both sides: a weak symbol here.
    hidden = " T sluice::" if list((args.work / "moved").rglob("libsluice_*.so")) else " sluice::"
    if shown := [line for line in symbols.splitlines() if hidden in line]:
        sys.exit("symbols that should be hidden:\n" + "\n".join(shown))


def ask_for(args, components, *options, fails=False):
    """Configures a project that draws a plan and asks for these components. Returns its build
    folder and what CMake says, in one line."""
    folder = args.work / "components"
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.22)
project(Part LANGUAGES CXX)
find_package(Sluice REQUIRED {components})
foreach(target CAF::core Sluice::torch)
  if(TARGET ${{target}})
    message(STATUS "there is ${{target}}")
  endif()
endforeach()
add_executable(consumer {HERE}/draw_plan.cpp)
target_link_libraries(consumer PRIVATE Sluice::plan)
""")
    said = run("cmake", "-S", folder, "-B", empty(folder / "build"), *options,
               f"-DCMAKE_PREFIX_PATH={args.work / 'moved'}", fails=fails)
    return folder / "build", " ".join(said.split())


def components(args):
    """One that there is not; all; and the plan alone, which needs no CAF."""
    expect("Sluice has no component 'teleport'",
           ask_for(args, "COMPONENTS teleport", fails=True)[1])
    if not args.torch:
        expect("this Sluice was built without LibTorch",
               ask_for(args, "COMPONENTS torch", fails=True)[1])
    expect("there is CAF::core -- Configuring done", ask_for(args, "")[1])
    folder, said = ask_for(args, "COMPONENTS plan OPTIONAL_COMPONENTS teleport")
    if "there is" in said:
        sys.exit("the plan needs nothing else\n" + said)
    run("cmake", "--build", folder)
    expect("1f1b is live", run(folder / "consumer"))


def torch(args):
    """The LibTorch that Sluice was built with, one of another version, none."""
    root = "-DSLUICE_TORCH_ROOT="
    other = fake_torch(args.work / "other_torch", version="1.2.3")
    expect(r"other_torch holds LibTorch 1\.2\.3, but this Sluice was built with \d",
           ask_for(args, "COMPONENTS torch", root + str(other), fails=True)[1])
    expect("/nowhere holds no include",
           ask_for(args, "COMPONENTS torch", root + "/nowhere", fails=True)[1])
    folder = build(args, "torch", f"-DCMAKE_PREFIX_PATH={args.work / 'moved'}", root + args.torch,
                   "-DCMAKE_BUILD_TYPE=")
    expect("loss .* -> ", run(folder / "consumer"))


def pkg_config(args):
    """From the unpacked Debian package, whose prefix is not /usr here."""
    usr = args.work / "package/root/usr"
    flags = run("env", f"PKG_CONFIG_PATH={next(usr.rglob('pkgconfig'))}", "pkg-config", "--cflags",
                "--libs", "sluice").split()
    folder = empty(args.work / "pkg_config")
    flags.append(f"-Wl,-rpath,{next(usr.rglob('libsluice_plan.*')).parent}")
    run(args.cxx, "-O1", HERE / "train_two_stages.cpp", HERE / "mlp_layers.cpp", "-o",
        folder / "consumer", *flags)
    expect("loss .* -> ", run(folder / "consumer"))
    return flags


def check_shared(library, checkout):
    """It shows namespace sluice, without its details, and is not bound to where it was built."""
    ours = r"\w+ \w ((typeinfo( name)?|vtable|VTT|guard variable) for |(non-)?virtual thunk to )?" \
           r"sluice::(?![^(<]*\bdetail::)"
    shown = run("nm", "-D", "-C", "--defined-only", library)
    expect(" T sluice::", shown)
    if others := [line for line in shown.splitlines() if not re.match(ours, line)]:
        sys.exit(f"{library} should not show:\n" + "\n".join(others))
    path, = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", run("readelf", "-d", library))
    if not path.startswith("$ORIGIN") or str(checkout) in path:
        sys.exit(f"{library} looks for others in {path}")


def shared_caf(args):
    run("env", "SHARED=ON", args.source / "scripts/build_caf.sh", args.work / "caf-shared")


def shared(args):
    """All but the LibTorch adapter as shared libraries, built without optimisation: what they show,
    and all of the ways above; then CAF on both sides of their border."""
    args.work, caf = args.work / "shared", args.work / "caf-shared"
    args.build, args.torch = args.work / "build", ""
    configure = ("cmake", "-S", args.source, "-B", args.build, "-DCMAKE_BUILD_TYPE=",
                 "-DSLUICE_BUILD_TESTS=OFF", "-DSLUICE_BUILD_EXAMPLES=OFF", "-DSLUICE_CUDA=OFF",
                 "-DSLUICE_TORCH=OFF", "-DBUILD_SHARED_LIBS=ON")
    run(*configure, f"-DCMAKE_PREFIX_PATH={caf}")
    run("cmake", "--build", args.build)
    for way in (install, package, find_package, components):
        way(args)
    libraries = list((args.work / "moved/lib").glob("libsluice_*.so"))
    for library in libraries:
        check_shared(library, args.source)
    expect("^4$", str(len(libraries)))
    flags = pkg_config(args)
    program = args.work / "actor_trainer"
    run(args.cxx, args.source / "examples/actor_trainer.cpp", "-o", program, *flags)
    expect("done\n$", run(program))


def add_subdirectory(args):
    # Nothing is optimised: this is about finding things, and is to be done soon.
    folder = build(args, "add_subdirectory", f"-DSLUICE={args.source}", "-DCMAKE_BUILD_TYPE=")
    expect("1f1b is live", run(folder / "consumer"))
    if next(pathlib.Path(os.environ["CAF_DIR"]).parents[1].glob("libcaf_core.a"), None):
        said = run("cmake", "-S", HERE / "add_subdirectory", "-B", folder / "shared",
                   f"-DSLUICE={args.source}", "-DBUILD_SHARED_LIBS=ON", fails=True)
        expect("a shared CAF, as BUILD_SHARED_LIBS is on: the one in .* is static", said)


def fetch_content(args):
    folder = build(args, "fetch_content", f"-DSLUICE={args.source}")
    expect("loss .* -> ", run(folder / "consumer"))


def main():
    ways = {way.__name__: way for way in (install, package, find_package, components, torch,
                                          pkg_config, shared_caf, shared, add_subdirectory,
                                          fetch_content)}
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=ways)
    for folder in ("source", "build", "work"):
        parser.add_argument(f"--{folder}", type=pathlib.Path, required=True)
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--torch", default="")
    args = parser.parse_args()
    for tool in {"pkg_config": ["pkg-config"], "package": ["dpkg-deb", "dpkg-shlibdeps"]}.get(
            args.way, []):
        if shutil.which(tool) is None:
            print(f"SKIPPED: {tool} is not on this machine")
            sys.exit(77)
    ways[args.way](args)
    print(f"{args.way}: built, ran, as expected")


if __name__ == "__main__":
    main()
