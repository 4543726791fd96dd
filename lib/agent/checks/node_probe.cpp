// SPDX-License-Identifier: Apache-2.0
#include "agent/checks/node_probe.hpp"

#include "agent/workers/run_dir.hpp"
#include "base/text.hpp"
#include "check/check_json.hpp"
#include "check/probe/measure_node.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <string>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kFiguresBytesMax = std::size_t{64} * 1024;

// The child prints a line before each step and one at the end.
check::NodeFigures last_figures(std::string_view printed, const char* what) {
  const std::string_view text = trim(printed);
  if (text.empty()) {
    check::NodeFigures none;
    none.unmeasured.emplace_back(std::string(what) + ": no result in time");
    return none;
  }
  return check::decode_figures(text.substr(text.rfind('\n') + 1));
}

std::string log_folder(const AgentSetup& setup) {
  return setup.config.logs_disabled ? std::string()
                                    : RunDir::place_of(setup.config, setup.environ, setup.random);
}

}  // namespace

// Only one child process runs at a time.
Result<void> NodeProbe::start_child(const Environ& environ,
                                    Duration timeout,
                                    std::function<void(const std::string& printed)> done) {
  const HelperSpec spec{.argv = {"/proc/self/exe", "--measure-node"},
                        .environment = environ.to_block(),
                        .timeout = timeout,
                        .bytes_max = kFiguresBytesMax};
  auto child =
      HelperProcess::start(loop_, spec, [this, call = std::move(done)](const std::string& printed) {
        // The object must not be destroyed by its own callback.
        asio::post(loop_, [gone = std::shared_ptr<HelperProcess>(std::move(child_))] {});
        call(printed);
      });
  MUSTER_RETURN_IF_ERROR(child);
  child_ = std::move(*child);
  started_(child_->pid());
  return {};
}

void NodeProbe::run(bool workers_run, const std::function<void()>& done) {
  if (child_) {
    return;
  }
  Environ environ = setup_.environ;
  environ.set(check::kLogFolderVariable, log_folder(setup_));
  if (workers_run) {
    environ.set(check::kWorkersVariable, "1");
  }
  const auto started =
      start_child(environ, kProbeTimeout, [this, done](const std::string& printed) {
        figures_ = last_figures(printed, "this node");
        done();
      });
  if (!started) {
    figures_.emplace().unmeasured.push_back("this node: " + started.error().message);
    asio::post(loop_, done);
  }
}

void NodeProbe::run_links(const check::LinkPlan& plan,
                          std::function<void(const check::NodeFigures& links)> done) {
  Environ environ = setup_.environ;
  environ.set(check::kLinksVariable, check::encode(plan));
  const auto started = start_child(environ, kLinksTimeout, [done](const std::string& printed) {
    done(last_figures(printed, "links"));
  });
  if (!started) {
    check::NodeFigures none;
    none.unmeasured.push_back("links: " + started.error().message);
    asio::post(loop_, [done, none] { done(none); });
  }
}

}  // namespace muster
