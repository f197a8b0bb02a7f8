# Installs the static binary of a release. The release fills in the checksums
# (packaging/build.sh formula).
class Tachograph < Formula
  desc "Benchmarks whose numbers add up: hyperfine for servers, with a recorder attached"
  homepage "https://tachograph.example/tachograph"
  version "0.1.0"
  license any_of: ["MIT", "Apache-2.0"]

  on_intel do
    url "https://tachograph.example/tachograph/releases/download/v0.1.0/tachograph-0.1.0-x86_64-linux.tar.gz"
    sha256 "@SHA256_X86_64@"
  end
  on_arm do
    url "https://tachograph.example/tachograph/releases/download/v0.1.0/tachograph-0.1.0-aarch64-linux.tar.gz"
    sha256 "@SHA256_AARCH64@"
  end

  # It reads /proc, control groups and network namespaces. On macOS, brew
  # refuses to install it and names this requirement.
  depends_on :linux

  def install
    bin.install "tachograph"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/tachograph.bash" => "tachograph"
    zsh_completion.install "completions/_tachograph"
    fish_completion.install "completions/tachograph.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tachograph --version")
    system bin/"tachograph", "doctor"
  end
end
