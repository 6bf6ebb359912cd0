#pragma once
// The options of Weft's commands: CLI11, compiled once. Every command has --help, --version, exit
// status 2 for wrong use, and its name before each message. --print-options, which --help does not
// show, prints all options and commands for scripts/man-pages and scripts/completions. Its rows
// have tabs between their fields:
//   command   PATH  passes|anywhere|(empty)  ABOUT
//   option    PATH  NAMES  VALUE  WORDS  DEFAULT  several|(empty)  ABOUT
//   argument  PATH  NAME   VALUE  WORDS  DEFAULT  several|(empty)  ABOUT
// PATH is the command's name with those above it; NAMES have commas between them; VALUE is empty
// for a flag; WORDS are the values with | between them, where only certain words are. Tests:
// tests/tools/cli_test.cpp, tests/tools/commands_test.py.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft::cli {

// An option or an argument of a command, for as long as the command exists. Each function says
// one thing more about it and returns it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  // Numbers from `least` to `most`.
  Option& range(std::int64_t least, std::int64_t most);
  Option& range_real(double least, double most);
  // Finite numbers above 0, or from 0.
  Option& positive();
  Option& not_negative();
  // One of these words.
  Option& one_of(std::vector<std::string> words);
  // Digits alone; a sign or a number beyond 64 bits is wrong.
  Option& natural();
  // Bytes: 4096, 64K, 64KiB, 4GiB; units are multiples of 1024.
  Option& bytes();
  // Several values in one word with commas between, so that an argument may follow.
  Option& list();
  // One value, but the option may be given several times.
  Option& repeated();
  // Several values, each a word or separated by commas.
  Option& separated_by_commas();
  // The default value that --help shows; without a text, the variable's value.
  Option& shows_default();
  Option& shows_default(const std::string& text);
  // From `least` to `most` values behind the option.
  Option& values(int least, int most);
  // The option may stand without a value, which then is `text`.
  Option& value_or(const std::string& text);
  // The name of the value in --help.
  Option& value_name(const std::string& name);
  Option& needs(const Option& other);
  Option& excludes(const Option& other);
  // The function runs for each value that is given.
  Option& on_value(std::function<void()> function);

  bool is_given() const;

 private:
  CLI::Option* option_;
};

// A command or a command of a command. A value that is bound to an option must outlive parse().
class Command {
 public:
  // `about` is the first paragraph of --help. `name` stands before messages.
  Command(const std::string& name, const std::string& about);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  // Names: "--count,-c", or "FILE" for an argument by position. T: bool is a flag's; int, unsigned,
  // 64-bit integers, double, std::string and vectors of strings, int, and unsigned integers.
  template <class T>
  Option option(const std::string& names, T& value, const std::string& about = {});
  // "!--no-x" clears the value.
  Option flag(const std::string& names, bool& value, const std::string& about = {});
  // One of the words, each with the value that it stands for; the word of the value at the time of
  // the call is shown as the default.
  template <class T>
  Option choice(const std::string& names, T& value,
                const std::vector<std::pair<std::string, T>>& words,
                const std::string& about = {}) {
    std::vector<std::pair<std::string, std::int64_t>> numbers;
    for (const auto& [word, meaning] : words)
      numbers.emplace_back(word, static_cast<std::int64_t>(meaning));
    return add_choice(
        names, [&value](std::int64_t number) { value = static_cast<T>(number); }, numbers,
        static_cast<std::int64_t>(value), about);
  }

  // A command below this one, for as long as this one exists.
  Command& command(const std::string& name, const std::string& about);
  // One command must be given, or at most one may be.
  void requires_command();
  void takes_command();
  // Options of this command may stand behind its command's name, too.
  void takes_options_anywhere();
  // All words from the first that is no option, or behind a "--", belong to another program:
  // rest().
  void passes_rest();
  std::vector<std::string> rest() const;
  // --help belongs to the other program, too.
  void passes_help();
  // The function runs at the end of parse() if the command is given.
  void on_parse(std::function<void()> function);

  // The exit status, if the program is to end now: 0 after --help and --version, 2 after wrong use,
  // which it reports on standard error.
  std::optional<int> parse(int argc, char** argv);
  // As parse(), but returns what is wrong instead of printing it.
  std::optional<int> parse(int argc, char** argv, std::string& wrong);

  // True if the arguments name this command.
  explicit operator bool() const;
  // The command of this one that the arguments name, or null.
  Command* chosen() const;
  // The command's own name; "weft-store put" is name() of one whose word is put.
  const std::string& word() const { return word_; }
  // The first names of the options that the arguments have, as "--alpha".
  std::set<std::string> given() const;
  const std::string& name() const { return name_; }

 private:
  Command(CLI::App* app, std::string name, std::string word);
  Option add_choice(const std::string& names, std::function<void(std::int64_t)> set,
                    const std::vector<std::pair<std::string, std::int64_t>>& words,
                    std::int64_t initial, const std::string& about);

  std::unique_ptr<CLI::App> owned_;  // of the uppermost command
  CLI::App* app_;
  std::string name_, word_;
  std::list<std::unique_ptr<Command>> commands_;
};

extern template Option Command::option(const std::string&, int&, const std::string&);
extern template Option Command::option(const std::string&, unsigned&, const std::string&);
extern template Option Command::option(const std::string&, std::int64_t&, const std::string&);
extern template Option Command::option(const std::string&, std::uint64_t&, const std::string&);
extern template Option Command::option(const std::string&, std::uint16_t&, const std::string&);
extern template Option Command::option(const std::string&, double&, const std::string&);
extern template Option Command::option(const std::string&, std::string&, const std::string&);
extern template Option Command::option(const std::string&, std::vector<std::string>&,
                                       const std::string&);
extern template Option Command::option(const std::string&, std::vector<int>&, const std::string&);
extern template Option Command::option(const std::string&, std::vector<unsigned>&,
                                       const std::string&);
extern template Option Command::option(const std::string&, std::vector<std::uint64_t>&,
                                       const std::string&);
extern template Option Command::option(const std::string&, std::vector<double>&,
                                       const std::string&);

}  // namespace weft::cli
