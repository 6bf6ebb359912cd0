#include "tools/cli/cli.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "base/nearest_name.hpp"

namespace weft::cli {
namespace {

std::string expected(const std::string& what, const std::string& found) {
  return fmt::format("expected {}, found \"{}\"", what, found);
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// Without zeros at its beginning, by which CLI11 takes a number for an octal one.
std::string as_decimal(std::string text) {
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  std::size_t end = begin;
  while (end + 1 < text.size() && text[end] == '0' && text[end + 1] >= '0' && text[end + 1] <= '9')
    ++end;
  return text.erase(begin, end - begin);
}

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T>;
template <class T>
constexpr bool kIsInteger<std::vector<T>> = std::is_integral_v<T>;

// CLI11 itself wraps numbers that are negative or too large for an unsigned variable.
std::string check_natural(const std::string& text) {
  std::uint64_t value = 0;
  const bool is_number = !text.empty() &&
                         text.find_first_not_of("0123456789") == std::string::npos &&
                         CLI::detail::lexical_cast(text, value);
  return is_number && (text.size() < 20 || std::to_string(value) == text)
             ? std::string()
             : expected("a number from 0", text);
}

// An option that --help does not show.
bool is_hidden(const CLI::Option* option) { return option->get_group().empty(); }

// The names of all options that `app` and those above it have, without dashes.
std::vector<std::string> option_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent())
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames())
        if (!is_hidden(option)) names.push_back(name);
  return names;
}

const CLI::App* innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::vector<std::string> command_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app->get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// "--cuont is not an option; did you mean --count?", or the same of a command or another word.
std::string explain_word(const CLI::App* app, const std::string& word) {
  const bool is_option = word.starts_with('-');
  const std::vector<std::string> names = is_option ? option_names(app) : command_names(app);
  std::string text = fmt::format("{} is {}", word,
                                 is_option       ? "not an option"
                                 : names.empty() ? "not expected here"
                                                 : "no command");
  if (const auto near = nearest_name(word.substr(0, word.find('=')), names))
    text += fmt::format("; did you mean {}{}?", is_option ? "--" : "", *near);
  else if (!is_option && !names.empty())
    text += ": " + joined(names);
  return text;
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* const command = innermost(&app);
  const std::vector<std::string> unknown = app.remaining(true);
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!unknown.empty() && (is_missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr))
    return explain_word(command, unknown.front());
  if (is_missing && command->get_require_subcommand_min() > 0)
    return "a command is missing: " + joined(command_names(command));
  return error.what();
}

// A field of a row of --print-options: one line without tabs.
std::string field(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char letter) { return letter == '\t' || letter == '\n'; }, ' ');
  return text;
}

// The rows of --print-options for `app`, whose name is `path`, and for the commands below it.
void add_rows(const CLI::App* app, const std::string& path, std::string& rows) {
  const bool anywhere = app->get_fallthrough();
  rows += fmt::format("command\t{}\t{}\t{}\n", path,
                      app->get_prefix_command() ? "passes"
                      : anywhere                ? "anywhere"
                                                : "",
                      field(app->get_description()));
  for (const CLI::Option* option : app->get_options()) {
    if (is_hidden(option)) continue;
    const bool takes_value = option->get_items_expected_max() > 0;
    const std::string type = option->get_type_name();
    rows += fmt::format(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", option->get_positional() ? "argument" : "option", path,
        option->get_name(option->get_positional(), true),
        takes_value ? field(type.substr(0, type.find(':'))) : "",
        type.find('|') == std::string::npos ? "" : type.substr(type.find(':') + 1),
        takes_value ? field(option->get_default_str()) : "",
        option->get_items_expected_max() > 1 ? "several" : "", field(option->get_description()));
  }
  for (const CLI::App* command : app->get_subcommands({}))
    add_rows(command, path + " " + command->get_name(), rows);
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::range(std::int64_t least, std::int64_t most) {
  option_->check(CLI::Validator(
      [least, most](const std::string& text) {
        std::int64_t value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most)
          return std::string();
        return expected(fmt::format("{} to {}", least, most), text);
      },
      fmt::format("{}..{}", least, most)));
  return *this;
}

Option& Option::range_real(double least, double most) {
  option_->check(CLI::Validator(
      [least, most](const std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most)
          return std::string();
        return expected(fmt::format("{} to {}", least, most), text);
      },
      fmt::format("{}..{}", least, most)));
  return *this;
}

Option& Option::positive() {
  option_->check([](const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0
               ? std::string()
               : expected("a number above 0", text);
  });
  return *this;
}

Option& Option::not_negative() {
  option_->check([](const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0
               ? std::string()
               : expected("a number from 0", text);
  });
  return *this;
}

Option& Option::one_of(std::vector<std::string> words) {
  const std::string all = fmt::format("{}", fmt::join(words, "|"));
  option_->check(CLI::Validator(
      [words = std::move(words)](const std::string& text) {
        return std::find(words.begin(), words.end(), text) != words.end()
                   ? std::string()
                   : expected("one of " + joined(words), text);
      },
      all));
  return *this;
}

Option& Option::natural() {
  option_->check(check_natural);
  return *this;
}

Option& Option::bytes() {
  option_->transform(CLI::AsSizeValue(false));
  option_->transform(as_decimal);  // before the unit is taken off
  option_->type_name("BYTES");
  return *this;
}

Option& Option::list() {
  option_->allow_extra_args(false)->expected(1)->delimiter(',')->take_all();
  return *this;
}

Option& Option::repeated() {
  option_->allow_extra_args(false)->expected(1)->take_all();
  return *this;
}

Option& Option::separated_by_commas() {
  option_->delimiter(',');
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::shows_default(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Option& Option::values(int least, int most) {
  option_->expected(least, most);
  return *this;
}

Option& Option::value_or(const std::string& text) {
  option_->expected(0, 1)->default_str(text);
  return *this;
}

Option& Option::value_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::on_value(std::function<void()> function) {
  option_->each([function = std::move(function)](const std::string&) { function(); });
  return *this;
}

bool Option::is_given() const { return option_->count() > 0; }

Command::Command(const std::string& name, const std::string& about)
    : owned_(std::make_unique<CLI::App>(about, name)),
      app_(owned_.get()),
      name_(name),
      word_(name) {
  app_->set_version_flag("--version", name + " (Weft) " WEFT_VERSION, "print the version, and end");
  app_->get_help_ptr()->description("print this, and end");
  app_->add_flag_callback("--print-options",
                          [app = app_, name] {
                            std::string rows;
                            add_rows(app, name, rows);
                            rows.pop_back();
                            throw CLI::CallForVersion(rows, 0);
                          })
      ->group("");
}

Command::Command(CLI::App* app, std::string name, std::string word)
    : app_(app), name_(std::move(name)), word_(std::move(word)) {
  app_->get_help_ptr()->description("print this, and end");
}

Command::~Command() = default;

template <class T>
Option Command::option(const std::string& names, T& value, const std::string& about) {
  CLI::Option* const option = app_->add_option(names, value, about);
  if constexpr (kIsInteger<T>) option->transform(as_decimal);
  if constexpr (std::is_unsigned_v<T>) option->check(check_natural);
  return Option(option);
}

template Option Command::option(const std::string&, int&, const std::string&);
template Option Command::option(const std::string&, unsigned&, const std::string&);
template Option Command::option(const std::string&, std::int64_t&, const std::string&);
template Option Command::option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::option(const std::string&, std::uint16_t&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<int>&, const std::string&);
template Option Command::option(const std::string&, std::vector<unsigned>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::uint64_t>&,
                                const std::string&);
template Option Command::option(const std::string&, std::vector<double>&, const std::string&);

Option Command::flag(const std::string& names, bool& value, const std::string& about) {
  return Option(app_->add_flag(names, value, about));
}

Option Command::add_choice(const std::string& names, std::function<void(std::int64_t)> set,
                           const std::vector<std::pair<std::string, std::int64_t>>& words,
                           std::int64_t initial, const std::string& about) {
  std::vector<std::string> all;
  std::string word_of_initial;
  for (const auto& [word, number] : words) {
    all.push_back(word);
    if (number == initial && word_of_initial.empty()) word_of_initial = word;
  }
  CLI::Option* const option = app_->add_option_function<std::string>(
      names,
      [set = std::move(set), words](const std::string& text) {
        for (const auto& [word, number] : words)
          if (word == text) return set(number);
      },
      about);
  option->default_str(word_of_initial);
  return Option(option).one_of(all);
}

Command& Command::command(const std::string& name, const std::string& about) {
  commands_.emplace_back(new Command(app_->add_subcommand(name, about), name_ + " " + name, name));
  return *commands_.back();
}

void Command::requires_command() { app_->require_subcommand(1); }

void Command::takes_command() { app_->require_subcommand(0, 1); }

void Command::takes_options_anywhere() { app_->fallthrough(); }

void Command::passes_rest() { app_->prefix_command(); }

std::vector<std::string> Command::rest() const {
  std::vector<std::string> words = app_->remaining();
  if (!words.empty() && words[0] == "--") words.erase(words.begin());
  return words;
}

void Command::passes_help() { app_->set_help_flag(); }

void Command::on_parse(std::function<void()> function) { app_->callback(std::move(function)); }

std::optional<int> Command::parse(int argc, char** argv) {
  std::string wrong;
  const std::optional<int> status = parse(argc, argv, wrong);
  if (!wrong.empty()) fmt::print(stderr, "{}: {} ({} --help)\n", name_, wrong, name_);
  return status;
}

std::optional<int> Command::parse(int argc, char** argv, std::string& wrong) {
  try {
    app_->parse(argc, argv);
    // Options of the other program stand behind its name.
    if (const auto rest = app_->remaining(); app_->get_prefix_command() && !rest.empty() &&
                                             rest[0].starts_with('-') && rest[0] != "--") {
      wrong = explain_word(app_, rest[0]);
      return 2;
    }
    return std::nullopt;
  } catch (const CLI::Success& end) {
    (void)app_->exit(end);
    // Output that cannot be written, as to a full disk, is an error.
    return std::fflush(stdout) == 0 && std::cout.flush() ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    wrong = explain(*app_, error);
    return 2;
  }
}

Command::operator bool() const { return app_->parsed(); }

Command* Command::chosen() const {
  for (const auto& command : commands_)
    if (*command) return command.get();
  return nullptr;
}

std::set<std::string> Command::given() const {
  std::set<std::string> names;
  for (const CLI::Option* option : app_->get_options())
    if (option->count() > 0) names.insert(option->get_name());
  return names;
}

}  // namespace weft::cli
