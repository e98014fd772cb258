-- The tables of LiteLLM's database that an import reads, with the columns that it goes by, as version 1.110.2 has them.
-- `make import-litellm` holds them to the real thing.
CREATE TABLE "LiteLLM_BudgetTable" (
    budget_id text PRIMARY KEY, max_budget double precision, soft_budget double precision, max_parallel_requests integer,
    tpm_limit bigint, rpm_limit bigint, tpd_limit bigint, model_max_budget jsonb, budget_duration text,
    budget_reset_at timestamp(3), allowed_models text[] DEFAULT '{}', created_by text NOT NULL, updated_by text NOT NULL
);
CREATE TABLE "LiteLLM_OrganizationTable" (
    organization_id text PRIMARY KEY, organization_alias text NOT NULL, budget_id text NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}', models text[], spend double precision NOT NULL DEFAULT 0, object_permission_id text,
    created_by text NOT NULL, updated_by text NOT NULL
);
CREATE TABLE "LiteLLM_ModelTable" (
    id serial PRIMARY KEY, aliases jsonb, created_by text NOT NULL, updated_by text NOT NULL
);
CREATE TABLE "LiteLLM_TeamTable" (
    team_id text PRIMARY KEY, team_alias text, organization_id text, object_permission_id text,
    metadata jsonb NOT NULL DEFAULT '{}', max_budget double precision, soft_budget double precision,
    spend double precision NOT NULL DEFAULT 0, models text[], max_parallel_requests integer, tpm_limit bigint, rpm_limit bigint,
    tpd_limit bigint, budget_duration text, budget_reset_at timestamp(3), blocked boolean NOT NULL DEFAULT false,
    model_max_budget jsonb NOT NULL DEFAULT '{}', access_group_ids text[] DEFAULT '{}', policies text[] DEFAULT '{}',
    budget_limits jsonb, model_id integer
);
CREATE TABLE "LiteLLM_ProjectTable" (
    project_id text PRIMARY KEY, project_alias text, team_id text, budget_id text, metadata jsonb NOT NULL DEFAULT '{}',
    models text[], spend double precision NOT NULL DEFAULT 0, model_rpm_limit jsonb NOT NULL DEFAULT '{}',
    model_tpm_limit jsonb NOT NULL DEFAULT '{}', blocked boolean NOT NULL DEFAULT false, object_permission_id text,
    created_by text NOT NULL, updated_by text NOT NULL
);
CREATE TABLE "LiteLLM_UserTable" (
    user_id text PRIMARY KEY, user_alias text, organization_id text, object_permission_id text, user_role text,
    max_budget double precision, spend double precision NOT NULL DEFAULT 0, user_email text, models text[],
    metadata jsonb NOT NULL DEFAULT '{}', max_parallel_requests integer, tpm_limit bigint, rpm_limit bigint, budget_duration text,
    budget_reset_at timestamp(3), policies text[] DEFAULT '{}', model_max_budget jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE "LiteLLM_TeamMembership" (
    user_id text NOT NULL, team_id text NOT NULL, spend double precision NOT NULL DEFAULT 0, budget_id text,
    PRIMARY KEY (user_id, team_id)
);
CREATE TABLE "LiteLLM_OrganizationMembership" (
    user_id text NOT NULL, organization_id text NOT NULL, user_role text, spend double precision DEFAULT 0, budget_id text,
    PRIMARY KEY (user_id, organization_id)
);
CREATE TABLE "LiteLLM_ObjectPermissionTable" (
    object_permission_id text PRIMARY KEY, mcp_servers text[] DEFAULT '{}', models text[] DEFAULT '{}',
    blocked_tools text[] DEFAULT '{}'
);
CREATE TABLE "LiteLLM_AccessGroupTable" (
    access_group_id text PRIMARY KEY, access_group_name text NOT NULL UNIQUE, access_model_names text[] DEFAULT '{}'
);
CREATE TABLE "LiteLLM_VerificationToken" (
    token text PRIMARY KEY, key_name text, key_alias text, spend double precision NOT NULL DEFAULT 0, expires timestamp(3),
    models text[], aliases jsonb NOT NULL DEFAULT '{}', config jsonb NOT NULL DEFAULT '{}', router_settings jsonb DEFAULT '{}',
    user_id text, team_id text, agent_id text, project_id text, permissions jsonb NOT NULL DEFAULT '{}',
    max_parallel_requests integer, metadata jsonb NOT NULL DEFAULT '{}', blocked boolean, tpm_limit bigint, rpm_limit bigint,
    tpd_limit bigint, max_budget double precision, budget_duration text, budget_reset_at timestamp(3),
    allowed_cache_controls text[] DEFAULT '{}', allowed_routes text[] DEFAULT '{}', key_type text, policies text[] DEFAULT '{}',
    access_group_ids text[] DEFAULT '{}', model_max_budget jsonb NOT NULL DEFAULT '{}',
    budget_fallbacks jsonb NOT NULL DEFAULT '{}', budget_id text, organization_id text, object_permission_id text,
    created_at timestamp(3) DEFAULT now(), last_active timestamp(3), auto_rotate boolean DEFAULT false, rotation_interval text,
    budget_limits jsonb
);
