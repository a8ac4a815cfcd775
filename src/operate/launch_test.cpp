#include "operate/launch.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "operate/store_socket.h"

namespace weft::operate {
namespace {

using namespace std::chrono_literals;

class Launching : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "launch-test-XXXXXX").string();
    folder = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  [[nodiscard]] LaunchRequest request(int ranks, const std::string& script) const {
    LaunchRequest asked;
    asked.command = {"/bin/sh", "-c", script};
    asked.ranks = ranks;
    asked.log_folder = (folder / "logs").string();
    asked.grace = 200ms;
    return asked;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(folder / name);
    std::ostringstream all;
    all << file.rdbuf();
    return all.str();
  }
  void wait_for(const std::string& name) const {
    for (int i = 0; i < 1000 && !std::filesystem::exists(folder / name); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
  // Launches in a process of its own, does something meanwhile, and gives its exit code.
  static int launched_apart(const LaunchRequest& asked, const std::function<void(pid_t)>& meanwhile) {
    const pid_t process = fork();
    if (process == 0) _exit(launch(asked));
    meanwhile(process);
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::filesystem::path folder;
};

TEST_F(Launching, EachRankGetsItsPlaceAndItsLog) {
  const std::string script =
      "echo $WEFT_RANK of $WEFT_RANKS, $WEFT_LOCAL_RANK, $OMP_NUM_THREADS, ${WEFT_STORE_SOCKET:+socket} ";
  EXPECT_EQ(launch(request(3, script + "> " + (folder / "out").string() + "-$WEFT_RANK; echo logged $WEFT_RANK")), 0);
  EXPECT_EQ(text("out-0"), "0 of 3, 0, 1, socket\n");
  EXPECT_EQ(text("out-2"), "2 of 3, 2, 1,\n");
  EXPECT_EQ(text("logs/rank-1.log"), "logged 1\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "logs/rank-0.log")) << "it has our own output";
}

TEST_F(Launching, TheFirstFailureIsTheExitCodeAndNobodyStays) {
  const auto start = std::chrono::steady_clock::now();
  const std::string script = "echo $$ > " + (folder / "pid").string() +
                             "-$WEFT_RANK; [ $WEFT_RANK = 1 ] && sleep 0.2 && exit 7; trap '' TERM; "
                             "while :; do sleep 0.1; done";
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch(request(3, script)), 7);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("rank 1 ended with exit code 7"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  for (const char* name : {"pid-0", "pid-2"}) {
    EXPECT_NE(kill(std::stoi(text(name)), 0), 0) << "it still runs: " << name;
  }
}

TEST_F(Launching, OthersMayEndByThemselvesWithinTheGrace) {
  LaunchRequest asked = request(2, "[ $WEFT_RANK = 1 ] && exit 5; sleep 0.3; touch " + (folder / "cleaned").string());
  asked.grace = 10s;
  EXPECT_EQ(launch(asked), 5);
  EXPECT_TRUE(std::filesystem::exists(folder / "cleaned"));
}

TEST_F(Launching, AKilledRankIsSaid) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch(request(2, "[ $WEFT_RANK = 1 ] && echo last words && kill -9 $$; sleep 60")), 128 + SIGKILL);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("rank 1 was ended by signal 9"), std::string::npos) << said;
  EXPECT_NE(said.find("last words"), std::string::npos) << said;
  EXPECT_NE(said.find("rank-1.log"), std::string::npos) << said;
}

TEST_F(Launching, SignalsReachAllRanksWhichSaveTheirState) {
  const std::string here = folder.string();
  const std::string script = "trap 'sleep 0.5; touch " + here + "/saved-$WEFT_RANK; exit 3' TERM; touch " + here +
                             "/ready-$WEFT_RANK; while :; do sleep 0.05; done";
  const int code = launched_apart(request(2, script), [&](pid_t process) {
    wait_for("ready-0");
    wait_for("ready-1");
    kill(process, SIGTERM);
  });
  EXPECT_EQ(code, 3);
  EXPECT_TRUE(std::filesystem::exists(folder / "saved-0"));
  EXPECT_TRUE(std::filesystem::exists(folder / "saved-1"))
      << "0.5 s are more than the grace, which does not count here";
}

TEST_F(Launching, RanksDieWithTheirLauncher) {
  const std::string here = folder.string();
  const std::string script =
      "echo $$ > " + here + "/pid-$WEFT_RANK; touch " + here + "/ready-$WEFT_RANK; exec sleep 60";
  launched_apart(request(2, script), [&](pid_t process) {
    wait_for("ready-0");
    wait_for("ready-1");
    kill(process, SIGKILL);
  });
  const int rank = std::stoi(text("pid-1"));
  for (int i = 0; i < 500 && kill(rank, 0) == 0; ++i) std::this_thread::sleep_for(10ms);
  std::ifstream state("/proc/" + std::to_string(rank) + "/stat");
  std::string words;
  std::getline(state, words);
  EXPECT_TRUE(words.empty() || words.find(") Z") != std::string::npos) << words;
}

TEST_F(Launching, MistakesAreNamed) {
  LaunchRequest missing = request(2, "");
  missing.command = {(folder / "nothing").string()};
  EXPECT_THROW(
      {
        try {
          (void)launch(missing);
        } catch (const Error& error) {
          EXPECT_NE(std::string_view(error.what()).find("nothing cannot be started: No such file"), std::string::npos);
          throw;
        }
      },
      Error);

  const StoreSocket other(0);
  LaunchRequest taken = request(2, "true");
  taken.port = other.port();
  EXPECT_THROW((void)launch(taken), InputError);

  std::ofstream(folder / "file") << "x";
  LaunchRequest no_folder = request(2, "true");
  no_folder.log_folder = (folder / "file/logs").string();
  EXPECT_THROW((void)launch(no_folder), InputError);
}

TEST_F(Launching, LogsThatNobodyAskedForGoWhenAllIsWell) {
  LaunchRequest asked = request(2, "echo hello; readlink /proc/$$/fd/2 > " + (folder / "log").string() + "-$WEFT_RANK");
  asked.log_folder = "";
  testing::internal::CaptureStdout();
  EXPECT_EQ(launch(asked), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "hello\n");
  std::string log = text("log-1");
  ASSERT_TRUE(log.find("rank-1.log") != std::string::npos) << log;
  log.pop_back();
  EXPECT_FALSE(std::filesystem::exists(log));
}

}  // namespace
}  // namespace weft::operate
