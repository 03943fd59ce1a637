#!lua flags=allow-oom
-- As append.lua, for what ends a command or gives a session up: that frees memory in the end, so it may even when
-- Redis is full.
--@include append
