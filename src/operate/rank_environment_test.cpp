#include "operate/rank_environment.h"

#include <map>

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::operate {
namespace {

using Variables = std::map<std::string, std::string>;

RankEnvironment read(const Variables& variables) {
  return read_rank_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void expect_refused(const Variables& variables, std::initializer_list<std::string_view> words) {
  try {
    (void)read(variables);
    ADD_FAILURE() << "was accepted: " << *words.begin();
  } catch (const InputError& error) {
    for (const std::string_view word : words) {
      EXPECT_NE(std::string_view(error.what()).find(word), std::string::npos) << word << " in: " << error.what();
    }
  }
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "node7"},
                             {"MASTER_PORT", "29501"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Variables kSlurm = {{"SLURM_PROCID", "2"},  {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "node[03-05,9]"},
                          {"SLURM_JOB_ID", "41"}, {"SLURM_STEP_ID", "1"},
                          {"SLURM_NTASKS", "8"}};

Variables joined(Variables one, const Variables& other) {
  one.insert(other.begin(), other.end());
  return one;
}

TEST(RankEnvironment, APlainRunIsTheOnlyRank) {
  const RankEnvironment ranks = read({});
  EXPECT_EQ(ranks.rank, 0);
  EXPECT_EQ(ranks.size, 1);
  EXPECT_EQ(ranks.threads, 0);
  EXPECT_EQ(ranks.launcher, "");
  EXPECT_EQ(read({{"WEFT_THREAD_RANKS", "8"}}).threads, 8);
}

TEST(RankEnvironment, EachLauncherIsUnderstood) {
  const RankEnvironment weft = read({{"WEFT_RANK", "1"},
                                     {"WEFT_RANKS", "2"},
                                     {"WEFT_LOCAL_RANK", "1"},
                                     {"WEFT_ADDRESS", "127.0.0.1"},
                                     {"WEFT_PORT", "4000"}});
  EXPECT_EQ(weft.rank, 1);
  EXPECT_EQ(weft.size, 2);
  EXPECT_EQ(weft.port, 4000);
  EXPECT_EQ(weft.launcher, "weft launch");

  const RankEnvironment torchrun = read(kTorchrun);
  EXPECT_EQ(torchrun.rank, 3);
  EXPECT_EQ(torchrun.size, 4);
  EXPECT_EQ(torchrun.local_rank, 1);
  EXPECT_EQ(torchrun.host, "node7");
  EXPECT_EQ(torchrun.port, 29501);
  EXPECT_TRUE(torchrun.store_is_hosted);
  EXPECT_EQ(torchrun.attempt, 2);

  const RankEnvironment slurm = read(kSlurm);
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.size, 8);
  EXPECT_EQ(slurm.local_rank, 0);
  EXPECT_EQ(slurm.host, "node03");
  EXPECT_GE(slurm.port, 20000);
  EXPECT_LT(slurm.port, 32000);
  Variables next_step = kSlurm;
  next_step["SLURM_STEP_ID"] = "2";
  EXPECT_NE(read(next_step).port, slurm.port);

  const RankEnvironment open_mpi = read({{"OMPI_COMM_WORLD_RANK", "1"},
                                         {"OMPI_COMM_WORLD_SIZE", "2"},
                                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(open_mpi.rank, 1);
  EXPECT_EQ(open_mpi.host, "127.0.0.1");
  const RankEnvironment mpich =
      read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}});
  EXPECT_EQ(mpich.rank, 1);
  EXPECT_EQ(mpich.host, "a");
  EXPECT_EQ(read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).host, "") << "the run file must say";
}

TEST(RankEnvironment, TheInnermostLauncherCounts) {
  EXPECT_EQ(read(joined(kTorchrun, kSlurm)).rank, 3) << "a torchrun on each node";
  EXPECT_EQ(read(joined({{"WEFT_RANK", "1"}, {"WEFT_RANKS", "2"}}, kSlurm)).rank, 1);
  EXPECT_EQ(read(joined(kSlurm, {{"PMI_RANK", "2"}, {"PMI_SIZE", "8"}})).launcher, "srun") << "srun --mpi=pmi2";
  EXPECT_EQ(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).size, 1) << "a batch script is no step";
}

TEST(RankEnvironment, ContradictionsAreNamed) {
  expect_refused({{"RANK", "1"}}, {"RANK", "WORLD_SIZE", "torchrun"});
  expect_refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, {"RANK=4", "WORLD_SIZE=4"});
  expect_refused({{"RANK", "one"}, {"WORLD_SIZE", "4"}}, {"RANK=one"});
  expect_refused({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "70000"}}, {"MASTER_PORT=70000", "65535"});
  Variables plain = kTorchrun;
  plain.erase("TORCHELASTIC_RUN_ID");
  expect_refused(joined(plain, kSlurm), {"RANK=3", "WORLD_SIZE=4", "SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=8"});
  expect_refused(joined(kTorchrun, {{"WEFT_THREAD_RANKS", "2"}}), {"WEFT_THREAD_RANKS=2", "torchrun"});
}

TEST(RankEnvironment, FirstHostOfASlurmList) {
  EXPECT_EQ(first_host("login1"), "login1");
  EXPECT_EQ(first_host("a1,b2"), "a1");
  EXPECT_EQ(first_host("node[03-05,9],x"), "node03");
  EXPECT_EQ(first_host("node[7]"), "node7");
  EXPECT_EQ(first_host("rack2n[1,4]-ib,x"), "rack2n1-ib");
}

}  // namespace
}  // namespace weft::operate
