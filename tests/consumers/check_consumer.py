#!/usr/bin/env python3
"""Uses Sluice as other projects do, and runs what they build.

    check_consumer.py WAY --source CHECKOUT --build FOLDER --work FOLDER [--cxx g++]

Ways: install, find_package, components, pkg_config, package, add_subdirectory, fetch_content. The
ways find_package to pkg_config take what `install` and `package` have put into the work folder.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


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
    if shown := [line for line in symbols.splitlines() if " sluice::" in line]:
        sys.exit("symbols that should be hidden:\n" + "\n".join(shown))


def components(args):
    """The plan alone, which needs no CAF; and a component that there is not."""
    folder = empty(args.work / "components")
    text = """cmake_minimum_required(VERSION 3.22)
project(Part LANGUAGES CXX)
find_package(Sluice REQUIRED COMPONENTS {})
if(TARGET CAF::core)
  message(FATAL_ERROR "the plan needs no CAF")
endif()
add_executable(consumer {}/draw_plan.cpp)
target_link_libraries(consumer PRIVATE Sluice::plan)
"""
    configure = ("cmake", "-S", folder, "-B", folder / "build",
                 f"-DCMAKE_PREFIX_PATH={args.work / 'moved'}")
    (folder / "CMakeLists.txt").write_text(text.format("teleport", HERE))
    expect("Sluice has no\\s+component\\s+'teleport'", run(*configure, fails=True))
    (folder / "CMakeLists.txt").write_text(text.format("plan", HERE))
    run(*configure)
    run("cmake", "--build", folder / "build")
    expect("1f1b is live", run(folder / "build/consumer"))


def pkg_config(args):
    """From the unpacked Debian package, whose prefix is not /usr here."""
    usr = args.work / "package/root/usr"
    flags = run("env", f"PKG_CONFIG_PATH={next(usr.rglob('pkgconfig'))}", "pkg-config", "--cflags",
                "--libs", "sluice").split()
    folder = empty(args.work / "pkg_config")
    run(args.cxx, "-O1", HERE / "train_two_stages.cpp", "-o", folder / "consumer", *flags)
    expect("loss .* -> ", run(folder / "consumer"))


def add_subdirectory(args):
    # Nothing is optimised: this is about finding things, and is to be done soon.
    folder = build(args, "add_subdirectory", f"-DSLUICE={args.source}", "-DCMAKE_BUILD_TYPE=")
    expect("1f1b is live", run(folder / "consumer"))


def fetch_content(args):
    folder = build(args, "fetch_content", f"-DSLUICE={args.source}")
    expect("loss .* -> ", run(folder / "consumer"))


def main():
    ways = {way.__name__: way for way in (install, package, find_package, components, pkg_config,
                                          add_subdirectory, fetch_content)}
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=ways)
    for folder in ("source", "build", "work"):
        parser.add_argument(f"--{folder}", type=pathlib.Path, required=True)
    parser.add_argument("--cxx", default="c++")
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
