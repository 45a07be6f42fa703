// Plain English words that tasks make keys of: short, and different from each other.
#pragma once

#include <array>
#include <string_view>

namespace quire::eval {

// Of JSON keys: loud_parrot.
inline constexpr std::array<std::string_view, 115> kAdjectives = {
    "able",   "aged",   "bold",  "brave",  "brief", "bright", "brisk",  "broad",  "calm",
    "cheap",  "clean",  "clear", "clever", "cold",  "cool",   "crisp",  "curly",  "dark",
    "deep",   "dry",    "dull",  "eager",  "early", "easy",   "fair",   "fancy",  "fast",
    "fierce", "fine",   "firm",  "flat",   "fond",  "fresh",  "funny",  "gentle", "giant",
    "glad",   "grand",  "great", "green",  "happy", "hard",   "heavy",  "honest", "huge",
    "humble", "icy",    "jolly", "keen",   "kind",  "large",  "late",   "lazy",   "light",
    "little", "lively", "lone",  "long",   "loud",  "lucky",  "mellow", "mild",   "narrow",
    "neat",   "noble",  "odd",   "old",    "pale",  "plain",  "plump",  "polite", "proud",
    "quick",  "quiet",  "rapid", "rare",   "red",   "rich",   "ripe",   "rough",  "round",
    "royal",  "rusty",  "shiny", "short",  "shy",   "silent", "silly",  "sleepy", "slim",
    "slow",   "small",  "smart", "smooth", "soft",  "solid",  "sour",   "spicy",  "steep",
    "stern",  "strong", "sweet", "swift",  "tall",  "tame",   "tender", "thin",   "tidy",
    "tiny",   "warm",   "wet",   "wide",   "wild",  "wise",   "young",
};

// And their second halves.
inline constexpr std::array<std::string_view, 108> kAnimals = {
    "ant",    "badger",  "bat",     "bear",    "beaver",  "bee",     "beetle", "bison",   "buffalo",
    "camel",  "canary",  "cat",     "cheetah", "chicken", "cobra",   "cow",    "coyote",  "crab",
    "crane",  "cricket", "crow",    "deer",    "dog",     "dolphin", "donkey", "dove",    "duck",
    "eagle",  "eel",     "elk",     "emu",     "falcon",  "ferret",  "finch",  "fish",    "fox",
    "frog",   "goat",    "goose",   "hamster", "hare",    "hawk",    "hen",    "heron",   "horse",
    "hyena",  "jackal",  "jaguar",  "kitten",  "koala",   "lamb",    "lark",   "leopard", "lion",
    "lizard", "llama",   "lobster", "magpie",  "mole",    "monkey",  "moose",  "moth",    "mouse",
    "mule",   "newt",    "octopus", "otter",   "owl",     "ox",      "oyster", "panda",   "panther",
    "parrot", "pelican", "penguin", "pig",     "pigeon",  "pony",    "puma",   "rabbit",  "raven",
    "robin",  "rooster", "salmon",  "seal",    "shark",   "sheep",   "snail",  "snake",   "sparrow",
    "spider", "squid",   "stork",   "swan",    "tiger",   "toad",    "trout",  "turkey",  "turtle",
    "viper",  "walrus",  "wasp",    "weasel",  "whale",   "wolf",    "wombat", "wren",    "zebra",
};

// That have a special magic number.
inline constexpr std::array<std::string_view, 64> kThings = {
    "apple",  "banana",  "cherry", "grape",    "lemon",   "mango",    "melon",   "olive",
    "orange", "peach",   "pear",   "plum",     "bread",   "butter",   "cheese",  "coffee",
    "honey",  "pepper",  "sugar",  "basket",   "blanket", "bottle",   "bridge",  "bucket",
    "candle", "carpet",  "castle", "chair",    "clock",   "curtain",  "desk",    "drum",
    "engine", "feather", "garden", "guitar",   "hammer",  "helmet",   "jacket",  "kettle",
    "ladder", "lamp",    "mirror", "needle",   "paper",   "pencil",   "piano",   "pillow",
    "pocket", "ribbon",  "river",  "rocket",   "saddle",  "scissors", "shovel",  "table",
    "ticket", "tower",   "train",  "umbrella", "violin",  "wagon",    "whistle", "window",
};

}  // namespace quire::eval
