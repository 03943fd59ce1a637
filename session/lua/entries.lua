-- Reads the frames that are in a log itself, from the one that holds a given event on.
-- KEYS  1 log
-- ARGV  1 event  2 at most so many frames  3 at most so many bytes, unless it is a single frame
-- Returns entries of the log
--@include page
return page(KEYS[1], tonumber(ARGV[1]), math.huge, tonumber(ARGV[2]), tonumber(ARGV[3]))
