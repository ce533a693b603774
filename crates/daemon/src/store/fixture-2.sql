-- What a becket of version 2 left behind: two events, one decided, and a session.
INSERT INTO events (seq, id, at, session_id, event, tool, pid, pid_is_claude, attended, source, masked, size, took_us)
VALUES (1, x'00000000000000000000000000000001', 1, 's', 'PreToolUse', 'Bash', 4242, 1, 1, 'daemon', 0, 2, 30),
       (2, x'00000000000000000000000000000002', 2, 's', 'Stop', NULL, 4242, 1, 1, 'alone', 0, 2, 900);
INSERT INTO payloads VALUES (1, 0, x'7b7d'), (2, 0, x'7b7d');
INSERT INTO decisions VALUES (1, 'deny', 'no-prod', 'off limits', 0, x'7b7d', x'');
INSERT INTO sessions VALUES ('s', 7, 2, NULL, CAST('{"session_id":"s","title":"kept","last_activity":2}' AS BLOB));
