// Addresses, and the memory behind them, as systems give them: in pages.
#pragma once

#include <cstddef>

namespace ftbnn {

std::size_t page_size();

// How many addresses to ask for at most: twice as many as there is memory, or a quarter of what the process may have.
std::size_t most_addresses();

// Addresses with nothing behind them, null if the system has none; sizes here are whole pages.
char* reserve_pages(std::size_t size);
bool fill_pages(char* start, std::size_t size);  // from now on they can be read and written; false if there is no more
void forget_pages(char* start, std::size_t size);  // what they hold is not needed, the system may have the memory
void free_pages(char* start, std::size_t size);    // all of a reservation, addresses too

}  // namespace ftbnn
