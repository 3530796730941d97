//! Number routines: num2str, str2num, ndigits.
