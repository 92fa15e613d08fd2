-- From here on a BLOB in bodies.packed may begin with the number of a second dictionary, which has
-- tables beside its words (controller/store/pack.c).

-- An output's scores have its request_id and choice: UNIQUE(request_id, choice, ...) finds them.
DROP INDEX IF EXISTS scores_by_output;
