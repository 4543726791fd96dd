// SPDX-License-Identifier: Apache-2.0
#include "config/options/values.hpp"

#include "config/options/rdzv_conf.hpp"
#include "config/std_spec.hpp"
#include "support/catch.hpp"

#include <csignal>

using namespace muster;

TEST_CASE("values: whole numbers like Python's int") {
  CHECK(parse_python_int(" 4") == 4);
  CHECK(parse_python_int("+4") == 4);
  CHECK(parse_python_int("1_0") == 10);
  CHECK(parse_python_int("-3") == -3);
  for (const char* bad : {"", "_1", "1_", "1__0", "4.0", "0x4", "four", "1 0"}) {
    INFO(bad);
    CHECK_FALSE(parse_python_int(bad));
  }
}

TEST_CASE("values: numbers like Python's float") {
  CHECK(parse_python_float("0.1") == 0.1);
  CHECK(parse_python_float(" +5 ") == 5.0);
  CHECK(parse_python_float("1e-3") == 1e-3);
  CHECK_FALSE(parse_python_float("fast"));
  CHECK_FALSE(parse_python_float("inf"));
  CHECK_FALSE(parse_python_float(""));
}

TEST_CASE("values: sizes") {
  CHECK(parse_bytes(" 7 ") == 7);
  CHECK(parse_bytes("2k") == 2048);
  CHECK(parse_bytes("3M") == std::uint64_t{3} << 20);
  CHECK(parse_bytes("8589934591G") == 8589934591ULL << 30);  // the largest that fits
  for (const char* bad : {"", "K", "-1", "1.5G", "1KB", "8589934592G", "9223372036854775808"}) {
    INFO(bad);
    CHECK_FALSE(parse_bytes(bad));
  }
}

TEST_CASE("values: flags in torchrun's variables are numbers, in ours also words") {
  CHECK(parse_number_flag("0") == false);
  CHECK(parse_number_flag("2") == true);
  CHECK_FALSE(parse_number_flag(""));
  CHECK_FALSE(parse_number_flag("true"));
  CHECK(parse_word_flag("TRUE") == true);
  CHECK(parse_word_flag("off") == false);
  CHECK(parse_word_flag("1") == true);
  CHECK_FALSE(parse_word_flag("maybe"));
}

TEST_CASE("values: a doubled comma represents a comma") {
  CHECK(split_with_escapes("a,b") == std::vector<std::string>{"a", "b"});
  CHECK(split_with_escapes("a,,b,c") == std::vector<std::string>{"a,b", "c"});
  CHECK(split_with_escapes("") == std::vector<std::string>{""});
}

TEST_CASE("values: signals by name") {
  CHECK(signal_number("SIGTERM") == SIGTERM);
  CHECK(signal_number(" sigusr1 ") == SIGUSR1);
  CHECK(signal_number("INT") == SIGINT);
  CHECK(signal_number("SIGIO") == SIGIO);
  CHECK_FALSE(signal_number(""));
  CHECK_FALSE(signal_number("SIG"));
  CHECK_FALSE(signal_number("SIGNONE"));
}

TEST_CASE("std spec: one value for all, or a map with local ranks of any length") {
  CHECK(parse_std_spec("3")->of(7) == 3);
  const auto spec = parse_std_spec("0:1,12:2,127:3");
  REQUIRE(spec);
  CHECK(spec->of(0) == 1);
  CHECK(spec->wants_stderr(12));
  CHECK_FALSE(spec->wants_stdout(12));
  CHECK(spec->of(127) == 3);
  CHECK(spec->of(1) == 0);
}

TEST_CASE("std spec: what torchrun refuses is refused") {
  for (const char* bad :
       {"", "4", "11", "0:1,", "0:1,1", "1,0:1", "0:4", "+0:1", ":1", "0:", "a:1"}) {
    INFO(bad);
    CHECK_FALSE(parse_std_spec(bad));
  }
}

TEST_CASE("rdzv conf: keys and values, blanks around them, literal quotes kept") {
  using Conf = std::map<std::string, std::string>;
  CHECK(parse_rdzv_conf("") == Conf{});
  CHECK(parse_rdzv_conf(" a = 1 , b=2=3 ") == Conf{{"a", "1"}, {"b", "2=3"}});
  CHECK(parse_rdzv_conf("'join_timeout=5,last_call_timeout=1,timeout=5'") ==
        Conf{{"'join_timeout", "5"}, {"last_call_timeout", "1"}, {"timeout", "5'"}});
}

TEST_CASE("rdzv conf: empty keys, empty values and reserved keys are refused") {
  for (const char* bad : {"a=1,", "a=1,,b=2", "=1", "a=", "a", "backend=c10d", "run_id=1"}) {
    INFO(bad);
    CHECK_FALSE(parse_rdzv_conf(bad));
  }
}

TEST_CASE("rdzv conf: the keys that a back end reads are checked, others are not") {
  CHECK(read_rendezvous_config({{"anything", "odd"}, {"join_timeout", "600"}}, "c10d"));
  CHECK(read_rendezvous_config({{"join_timeout", "x"}, {"is_host", "x"}}, "static"));
  CHECK(read_rendezvous_config({{"timeout", "5'"}, {"store_type", "file"}}, "c10d"));
  using Conf = std::map<std::string, std::string>;
  for (const Conf& bad : {Conf{{"join_timeout", "0"}},
                          Conf{{"last_call_timeout", "x"}},
                          Conf{{"close_timeout", "inf"}},
                          Conf{{"read_timeout", "-1"}},
                          Conf{{"heartbeat_timeout", "0"}},
                          Conf{{"keep_alive_interval", "0"}},
                          Conf{{"keep_alive_max_attempt", "0"}},
                          Conf{{"keep_alive_max_attempt", "1.5"}},
                          Conf{{"cas_backoff_max_seconds", "-1.0"}},
                          Conf{{"is_host", "perhaps"}},
                          Conf{{"store_type", "hash"}}}) {
    INFO(bad.begin()->first);
    CHECK_FALSE(read_rendezvous_config(bad, "c10d"));
  }
  CHECK_FALSE(read_rendezvous_config({{"timeout", "soon"}}, "static"));
}

TEST_CASE("rdzv conf: our own keys are checked for every backend") {
  using Conf = std::map<std::string, std::string>;
  for (const char* backend : {"static", "c10d"}) {
    for (const Conf& bad : {Conf{{"lease", "0.1"}},
                            Conf{{"lease", "never"}},
                            Conf{{"join_delay", "-1"}},
                            Conf{{"join_delay", "later"}},
                            Conf{{"allow_split_brain", "2"}}}) {
      INFO(bad.begin()->first);
      CHECK_FALSE(read_rendezvous_config(bad, backend));
    }
    CHECK(read_rendezvous_config({{"lease", "0.2"}}, backend)->lease ==
          std::chrono::milliseconds(200));
  }
  CHECK(read_rendezvous_config({{"lease", "0.1"}}, "c10d").error().message ==
        "lease=0.1 must be at least 0.2 s");
}

TEST_CASE("rdzv conf: the old name of allow_split_brain is rejected in favour of the new one") {
  for (const char* backend : {"static", "c10d"}) {
    const auto refused = read_rendezvous_config({{"risk_two_worlds", "true"}}, backend);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::usage);
    CHECK(refused.error().message == "risk_two_worlds=true was renamed: use allow_split_brain");
  }
}

TEST_CASE("rdzv conf: missing keys have torchrun's defaults") {
  const auto c10d = read_rendezvous_config({}, "c10d");
  REQUIRE(c10d);
  CHECK(c10d->join_timeout == std::chrono::seconds(600));
  CHECK(c10d->last_call_timeout == std::chrono::seconds(30));
  CHECK(c10d->lease == std::chrono::seconds(9));
  CHECK(c10d->join_delay == Duration::zero());
  CHECK_FALSE(c10d->allow_split_brain);
  CHECK_FALSE(c10d->is_host);
  CHECK(read_rendezvous_config({}, "static")->join_timeout == std::chrono::seconds(900));
}

TEST_CASE("rdzv conf: each key sets its value, including fractions of a second") {
  const auto out = read_rendezvous_config({{"join_timeout", "5"},
                                           {"last_call_timeout", "0.25"},

                                           {"lease", "0.5"},
                                           {"join_delay", "2"},
                                           {"is_host", "No"},
                                           {"allow_split_brain", "yes"},
                                           {"any_program", "1"}},
                                          "c10d");
  REQUIRE(out);
  CHECK(out->join_timeout == std::chrono::seconds(5));
  CHECK(out->last_call_timeout == std::chrono::milliseconds(250));
  CHECK(out->lease == std::chrono::milliseconds(500));
  CHECK(out->join_delay == std::chrono::seconds(2));
  CHECK(out->is_host == false);
  CHECK(out->allow_split_brain);
  CHECK(out->any_program);
  CHECK(read_rendezvous_config({{"timeout", "0.5"}}, "static")->join_timeout ==
        std::chrono::milliseconds(500));
  CHECK_FALSE(read_rendezvous_config({{"join_delay", "never"}}, "c10d")->join_delay);
  CHECK(read_rendezvous_config({{"is_host", "T"}}, "c10d")->is_host == true);
  CHECK(read_rendezvous_config({{"join_timeout", "1e300"}}, "c10d")->join_timeout >
        std::chrono::years(30));
}

TEST_CASE("rdzv conf: the lease is torchrun's interval times attempts, unless set") {
  const auto lease = [](const std::map<std::string, std::string>& conf) {
    return read_rendezvous_config(conf, "c10d")->lease;
  };
  CHECK(lease({{"keep_alive_interval", "2"}, {"keep_alive_max_attempt", "4"}}) ==
        std::chrono::seconds(8));
  CHECK(lease({{"keep_alive_interval", "2"}}) == std::chrono::seconds(6));
  CHECK(lease({{"keep_alive_max_attempt", "2"}}) == std::chrono::seconds(10));
  CHECK(lease({{"keep_alive_interval", "0.01"}}) == std::chrono::milliseconds(200));
  CHECK(lease({{"keep_alive_interval", "2"}, {"lease", "1"}}) == std::chrono::seconds(1));
}
