-- Two roles, neither of them a superuser. The owner makes the tables. The service may only read and add rows.
-- The image runs this file once, in the database that POSTGRES_DB names, when the database is made.
\set ON_ERROR_STOP on
\set owner_password `cat /run/secrets/owner`
\set service_password `cat /run/secrets/service`
CREATE ROLE dpensemble_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE dpensemble LOGIN PASSWORD :'service_password';
GRANT USAGE, CREATE ON SCHEMA public TO dpensemble_owner;
GRANT USAGE ON SCHEMA public TO dpensemble;
ALTER DEFAULT PRIVILEGES FOR ROLE dpensemble_owner IN SCHEMA public GRANT SELECT, INSERT ON TABLES TO dpensemble;
