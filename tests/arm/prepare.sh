#!/bin/sh
# What other architectures need, under build/arm: the C library and answers.c for aarch64, armv7 and riscv64, and for
# aarch64 the extension with a Python that qemu runs. Tools are installed where that is possible (root on Debian), else
# it says which are missing. Nothing outside of build/ is changed but by installing those.
set -eu
venv=$1
out=build/arm
packages="g++-aarch64-linux-gnu g++-arm-linux-gnueabihf g++-riscv64-linux-gnu qemu-user"

has_tools() {
  for tool in aarch64-linux-gnu-g++ arm-linux-gnueabihf-g++ riscv64-linux-gnu-g++ qemu-aarch64 qemu-arm qemu-riscv64; do
    command -v $tool > /dev/null || return 1
  done
}

install_tools() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "other architectures need cross compilers and an emulator; on Debian, as root: apt-get install $packages" >&2
    exit 2
  fi
  echo "== installing $packages"
  apt-get update > /dev/null
  apt-get install -y --no-install-recommends $packages > /dev/null
}

# Debian's packages for arm64, unpacked into a folder: apt is told of another state, so the system's own is not touched.
python_for_arm() {
  [ -x $out/root/usr/bin/python3 ] && return
  command -v apt-get > /dev/null || { echo "the tests of aarch64 need apt-get, to fetch its Python" >&2; exit 2; }
  echo "== fetching Python for aarch64"
  state=$(pwd)/$out/apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial" $out/root
  : > "$state/status"
  arm() {
    apt-get -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$state" \
      -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
      -o Debug::NoLocking=1 "$@" > /dev/null
  }
  arm update
  arm install -y --no-install-recommends --download-only python3 libpython3-dev libstdc++6
  for package in "$state"/cache/archives/*.deb; do dpkg -x "$package" $out/root; done
}

packages_for_arm() {
  [ -d $out/site/hypothesis ] && return
  echo "== fetching NumPy, Pillow, pytest and hypothesis for aarch64"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --target $out/site --only-binary :all: \
    --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 \
    --python-version "$($out/python -c 'import platform; print(platform.python_version())')" \
    numpy pillow pytest hypothesis
}

configure() {  # FOLDER PROCESSOR PREFIX OPTIONS...
  folder=$1 processor=$2 prefix=$3
  shift 3
  "$venv/bin/cmake" -S . -B "$out/$folder" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor" \
    -DCMAKE_CXX_COMPILER="$prefix-g++" "$@" > /dev/null
}

c_library() {  # FOLDER PREFIX
  echo "== the C library for $1"
  # -Wno-psabi: no notes on what GCC 7 changed.
  configure "$1" "$1" "$2" -DFTBNN_C=ON -DCMAKE_C_COMPILER="$2-gcc" -DCMAKE_CXX_FLAGS=-Wno-psabi
  "$venv/bin/cmake" --build "$out/$1" --parallel 2 > /dev/null
  "$2-gcc" -O1 -Wall -Wextra -Inative/include native/tests/arm/answers.c -L"$out/$1" -lftbnn -o "$out/$1/answers"
}

extension() {
  echo "== the extension for aarch64"
  configure extension aarch64 aarch64-linux-gnu -DFTBNN_TESTS=ON -DFTBNN_BENCH=ON -DPython_EXECUTABLE="$(pwd)/$out/python" \
    -DPython_INCLUDE_DIR="$(echo "$(pwd)"/$out/root/usr/include/python3.*)" \
    -DCMAKE_CXX_FLAGS="-idirafter $(pwd)/$out/root/usr/include" \
    -Dnanobind_DIR="$("$venv/bin/python" -m nanobind --cmake_dir)"
  "$venv/bin/cmake" --build $out/extension --parallel 2 > /dev/null
  rm -rf $out/site/ftbnn
  cp -r src/ftbnn $out/site/
  cp $out/extension/_native*.so $out/site/ftbnn/
}

has_tools || install_tools
mkdir -p $out
cat > $out/python << EOF
#!/bin/sh
PYTHONPATH=$(pwd)/$out/site PYTHONDONTWRITEBYTECODE=1 exec qemu-aarch64 -cpu \${CPU:-max} -L $(pwd)/$out/root \\
  $(pwd)/$out/root/usr/bin/python3 "\$@"
EOF
chmod +x $out/python
cc -O2 -Wall -Wextra -shared -fPIC native/tests/arm/count.c -o $out/count.so
c_library aarch64 aarch64-linux-gnu
[ "${2:-}" = "library" ] && exit
c_library armv7 arm-linux-gnueabihf
c_library riscv64 riscv64-linux-gnu
python_for_arm
packages_for_arm
extension
